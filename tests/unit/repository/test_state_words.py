"""The words for states: each has a line in docs/operating.md, and the page prints no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import canal_group.actors.http.app as app_module
from canal_group.actors.shard.intake import IntakeState
from canal_group.merge.state_words import ClientWord, ShardWord, client_words, shard_words

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "operating.md").read_text()
PAGE = (Path(app_module.__file__).parent / "page" / "main.js").read_text()


def documented(head: str) -> list[str]:
    """Return the first column of the table whose head begins so."""
    table = DOCUMENT.partition(f"| {head} |")[2].partition("\n\n")[0]
    return re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)


def test_each_state_has_a_line_that_says_what_to_do():
    assert documented("of a shard") == [word.value for word in ShardWord]
    assert documented("of a client id") == [word.value for word in ClientWord]


def test_each_state_of_a_reader_has_a_word():
    for state in (*IntakeState, "closed", "unavailable"):
        assert shard_words({"shard": "s0", "state": str(state)}, {}, []) == [str(state)]


@pytest.mark.parametrize(
    ("reads", "phase", "word"),
    [
        ("closed", "opening", "opening"),
        ("connecting", "opening", "opening"),
        ("stopped", "opening", "stopped"),
        ("closed", "failed", "stopped"),
        ("connecting", "failed", "connecting"),
        ("closed", "open", "closed"),
    ],
)
def test_a_shard_that_reads_nothing_is_as_its_group_knows_it(reads: str, phase: str, word: str):
    assert shard_words({"shard": "s0", "state": reads}, {"state": phase}, []) == [word]


def test_a_client_id_may_have_several():
    client = {
        "client_id": "app",
        "holder": None,
        "look": False,
        "lasting": False,
        "dropped": True,
        "error": "It is gone.",
    }
    full = [{"shard": "s0", "clients": ["app"]}]
    assert client_words(client, full) == [
        "no consumer",
        "never acknowledged",
        "holds a full ring",
        "dropped",
        "purged",
    ]
    assert client_words({**client, "look": True, "holder": "me"}, [])[:2] == ["has a consumer", "look"]


@pytest.mark.parametrize("words", ["shard.words", "client.words"])
def test_the_page_prints_the_words_and_makes_none(words: str):
    assert words in PAGE
    # `hold` and `skip` are what its buttons ask for, too.
    for made in {*ShardWord, *ClientWord} - {ShardWord.HOLD, ShardWord.SKIP}:
        assert f'"{made.value}"' not in PAGE
