"""Sizes in options."""

from __future__ import annotations

import pytest

from canal_group.merge.errors import UsageError
from canal_group.programs.command.options.byte_size import parse_size


@pytest.mark.parametrize(
    ("text", "size"), [("64MiB", 64 << 20), ("512 KiB", 512 << 10), ("7", 7), ("7B", 7), ("1GiB", 1 << 30)]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "64MB", "-1", "MiB", "1.5GiB"])
def test_no_sizes(text):
    with pytest.raises(UsageError, match="is not a valid size"):
        parse_size(text)
