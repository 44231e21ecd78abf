"""Instance files are shown without secrets."""

from __future__ import annotations

import re

import pytest

from canal_group.actors.http.instance_files import HIDDEN, _shown


@pytest.mark.parametrize(
    "line",
    [
        "password: s3cret-1",
        "  password: 's3cret-1 # and more'",
        '{name: s0, password: "s3cret-1", port: 3306}',
        "{name: s0, port: 3306, password: s3cret-1}",
        '"token": s3cret-1   # of ops',
        "password: |\n    s3cret-1\n    s3cret-1 again",
        "SALT : s3cret-1",
        "password: a,s3cret-1}",
        "password:\n    s3cret-1",
        "password: a\n    s3cret-1",
        "- password: s3cret-1\n  host: a",
    ],
)
def test_what_looks_like_a_secret_is_hidden_and_the_rest_is_not(line: str):
    text = f"destination: shop\n{line}\nshards: []\n"
    shown = _shown(text)
    assert "s3cret-1" not in shown
    assert HIDDEN in shown or "password:\n" in text
    assert re.match(r"destination: shop\n", shown)
    assert shown.endswith("shards: []\n")
    assert ("host: a" in shown) == ("host: a" in text)


def test_hiding_takes_time_in_proportion_to_the_text():
    for evil in ("password: " + "}" * 100_000 + "x", "password: '" * 20_000, 'password: "' + "\\" * 100_000):
        assert len(_shown(evil)) < 200_000


@pytest.mark.parametrize(
    "line",
    [
        "password_env: CANAL_PASSWORD",
        "{token_file: secrets/ops, operate: true}",
        "shard_add: {secrets: /etc/secrets}",
        "my-password: x",
        "password:",
    ],
)
def test_what_names_a_secret_is_shown(line: str):
    assert _shown(line + "\n") == line + "\n"
