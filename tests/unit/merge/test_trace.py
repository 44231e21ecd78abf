"""Which transaction a GTID names."""

from __future__ import annotations

import pytest

from merge.errors import UsageError
from merge.trace import single
from merge.values.gtid import parse_gtid_set

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("text", "named"),
    [("0-1-42", ("0-1", 42)), (f"{UUID}:7", (UUID, 7)), (f"{UUID}:tag:7", (f"{UUID}:tag", 7))],
)
def test_one_transaction_is_named_as_headers_name_it(text, named):
    assert single(parse_gtid_set(text), text) == named


@pytest.mark.parametrize(
    "text", ["", "0-1-42,1-1-3", f"{UUID}:1-2", f"{UUID}:1:5", f"{UUID}:1,{UUID[:-1]}3:1"]
)
def test_several_or_none_are_refused(text):
    with pytest.raises(UsageError, match="not the GTID of one transaction"):
        single(parse_gtid_set(text), text)
