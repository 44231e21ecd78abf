"""Parts of a batch: runs of whole transactions, the same however those came in fragments."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from canal_group.actors.gateway.batch_reader import Part
from canal_group.merge.values.header import HEADER, Flag


def headers(*transactions):
    """Return headers of transactions, each a list of its fragments' rows."""
    found = np.zeros(sum(map(len, transactions)), dtype=HEADER)
    index = 0
    for fragments in transactions:
        for rows in fragments:
            found[index]["row_end"] = rows
            index += 1
        found[index - 1]["flags"] = Flag.END
    return found


def rows_of(found, count):
    """Return how many rows each of `count` parts has; they follow each other without a gap."""
    runs = [Part(index, count).of(found) for index in range(count)]
    assert runs[0].start == 0
    assert runs[-1].stop == len(found)
    assert all(one.stop == other.start for one, other in pairwise(runs))
    return [int(found["row_end"][run].sum()) for run in runs]


def test_parts_have_about_as_many_rows_and_end_with_transactions():
    assert rows_of(headers([3], [1], [2], [2]), 2) == [4, 4]
    assert rows_of(headers([1], [9], [1]), 3) == [10, 0, 1]
    assert rows_of(headers([0]), 2) == [0, 0]
    assert rows_of(headers(), 2) == [0, 0]


def test_what_has_not_ended_belongs_to_the_last_part():
    cut_off = headers([2], [2], [5, 1])[:-1]
    assert rows_of(cut_off, 2) == [2, 7]
    assert rows_of(headers([5, 1])[:-1], 2) == [5, 0]


@given(
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), max_size=8), st.integers(1, 5), st.data()
)
def test_fragments_do_not_matter(transactions, count, data):
    again = []
    for fragments in transactions:
        total = sum(fragments)
        cut = data.draw(st.integers(0, total))
        again.append([cut, total - cut])
    if count > 1:
        assert rows_of(headers(*transactions), count) == rows_of(headers(*again), count)
