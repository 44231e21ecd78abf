"""A bounded part of `make fuzz`: the same seeds each time."""

from __future__ import annotations

import pytest
from support.binlog import fuzz

SEEDS_A_TEST, TESTS = 150, 8


@pytest.mark.parametrize("first", range(0, SEEDS_A_TEST * TESTS, SEEDS_A_TEST))
def test_damaged_binlogs_are_decoded_or_refused(first, tmp_path):
    refused = sum(fuzz.attempt(seed, tmp_path) for seed in range(first, first + SEEDS_A_TEST))
    assert 0 < refused < SEEDS_A_TEST, "damage is noticed, and not all of it is fatal"


def test_the_corpus_holds_every_server():
    servers = {name.split("/")[0] for name, *_ in fuzz.corpus()}
    assert servers == {"mysql-5.5.9", "mysql-9.7.4", "mariadb-10.2.11", "mariadb-10.11"}
