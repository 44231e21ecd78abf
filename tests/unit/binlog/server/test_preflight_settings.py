"""Checks of settings that no server of the tests has."""

from __future__ import annotations

import pytest

from canal_group.binlog.server.preflight.preflight import _setting, require
from canal_group.binlog.server.source import ServerFacts
from canal_group.merge.errors import SourceUnfit


def check(**variables):
    return _setting(ServerFacts("12.3.1-MariaDB", 1, "1", variables), "binlog_storage_engine")


def test_a_binlog_in_innodb_is_refused():
    with pytest.raises(SourceUnfit, match=r"binlog_storage_engine is INNODB: .* no offsets") as caught:
        require([check(binlog_storage_engine="InnoDB")], "s1")
    assert caught.value.hint.startswith("Remove binlog_storage_engine")


def test_a_binlog_in_another_engine_is_refused():
    assert not check(binlog_storage_engine="rocksdb").ok


def test_a_binlog_in_files_passes():
    assert check(binlog_storage_engine="").ok
    assert check().ok
