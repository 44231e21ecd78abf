"""What every adapter of `EpochStore` has to do; a test class of each adapter, and of a plug-in, inherits it.

Kinds are those of the codecs: what one of them needs, each adapter has to do.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from canal_group.actors.group.stored.cursors import CURSORS
from canal_group.actors.group.stored.document import DOCUMENTS
from canal_group.actors.group.stored.histories import HISTORIES
from canal_group.actors.ports import EpochStore, Key
from canal_group.merge.errors import ConfigError, FencedError, UsageError

TEXT = Key(HISTORIES, "s0")
OTHER = Key(HISTORIES, "s1")
MEMBERS = Key(CURSORS, "1001")


def members(**texts: str) -> str:
    """Return a value that has members."""
    return json.dumps(texts) + "\n"


def text_of(size: int, seed: int) -> str:
    """Return a line that cannot be compressed well."""
    return random.Random(seed).randbytes(size // 2).hex() + "\n"


#: returns the epoch of a new election
Elect = Callable[[], int]
Call = Callable[[EpochStore, int], object]


class StoreConformance:
    """A class that inherits has fixtures `store`, and `elect`, which returns the epoch of a new election."""

    @pytest.fixture
    def epoch(self, store: EpochStore, elect: Elect) -> int:
        """Return the epoch of the server that was elected."""
        epoch = elect()
        store.claim(epoch)
        return epoch

    def test_it_begins_with_nothing(self, store: EpochStore, epoch: int) -> None:
        for key in (TEXT, MEMBERS):
            assert store.names(key.kind, epoch) == []
            assert store.get(key, epoch) is None
            store.delete(key, epoch)

    def test_what_was_put_is_there_under_its_key(self, store: EpochStore, epoch: int) -> None:
        same_name = Key(DOCUMENTS, TEXT.name)
        store.put(OTHER, "{}\n", epoch)
        store.put(TEXT, '{"a":"\u00e9\\r"}\r\n', epoch)
        store.put(same_name, "else\n", epoch, may_wait=True)
        assert store.get(TEXT, epoch) == '{"a":"\u00e9\\r"}\r\n'
        assert store.get(OTHER, epoch) == "{}\n"
        assert store.get(same_name, epoch) == "else\n"
        assert store.names(HISTORIES, epoch) == ["s0", "s1"]
        assert store.names(DOCUMENTS, epoch) == ["s0"]
        assert store.names(CURSORS, epoch) == []

    @pytest.mark.parametrize("may_wait", [False, True])
    def test_a_value_with_members_is_replaced_as_a_whole(
        self, store: EpochStore, epoch: int, may_wait: bool
    ) -> None:
        for text in (
            members(filter="a\\..*", cursor="{}", dropped=""),
            members(filter="", cursor='{"\u00e9": 1}', losses="[]", quiet_since="{}"),
            members(filter="zlib\nx"),
            members(filter="", cursor=text_of(200_000, 1)),
        ):
            store.put(MEMBERS, text, epoch, may_wait=may_wait)
            assert json.loads(store.get(MEMBERS, epoch) or "") == json.loads(text)
            assert store.names(CURSORS, epoch) == ["1001"]

    def test_names_are_in_order_and_end_with_their_value(self, store: EpochStore, epoch: int) -> None:
        for name in ("1001", "0007", "x.json", "x", "A-b_c"):
            store.put(Key(CURSORS, name), members(filter=name), epoch)
        store.delete(Key(CURSORS, "x"), epoch)
        assert store.names(CURSORS, epoch) == ["0007", "1001", "A-b_c", "x.json"]
        assert store.get(Key(CURSORS, "x"), epoch) is None
        assert json.loads(store.get(Key(CURSORS, "x.json"), epoch) or "") == {"filter": "x.json"}

    def test_what_was_added_continues_what_was_put(self, store: EpochStore, epoch: int) -> None:
        store.put(TEXT, "one\n", epoch)
        store.append(TEXT, "two\nthree\n", epoch)
        store.append(TEXT, "f\u00f6ur\n", epoch)
        assert store.get(TEXT, epoch) == "one\ntwo\nthree\nf\u00f6ur\n"
        assert store.names(HISTORIES, epoch) == ["s0"]
        store.put(TEXT, "anew\n", epoch)
        assert store.get(TEXT, epoch) == "anew\n"
        store.append(TEXT, "more\n", epoch)
        store.delete(TEXT, epoch)
        assert (store.get(TEXT, epoch), store.names(HISTORIES, epoch)) == (None, [])

    def test_an_addition_without_what_it_continues_is_refused(self, store: EpochStore, epoch: int) -> None:
        with pytest.raises(ConfigError, match="was to be continued"):
            store.append(TEXT, "x\n", epoch)
        assert store.get(TEXT, epoch) is None

    def test_a_long_text_comes_back_with_long_additions(self, store: EpochStore, epoch: int) -> None:
        text = "".join(text_of(700_000, seed) for seed in range(4))
        store.put(TEXT, text, epoch)
        store.append(TEXT, text_of(900_000, 9), epoch)
        assert store.get(TEXT, epoch) == text + text_of(900_000, 9)
        store.put(TEXT, "short\n", epoch)
        assert store.get(TEXT, epoch) == "short\n"

    def test_an_older_epoch_changes_nothing(self, store: EpochStore, epoch: int, elect: Elect) -> None:
        store.put(TEXT, "old\n", epoch)
        store.put(MEMBERS, members(filter="old"), epoch)
        newer = elect()
        store.claim(newer)
        for stale in (
            lambda: store.claim(epoch),
            lambda: store.put(TEXT, "late\n", epoch),
            lambda: store.put(MEMBERS, members(filter="late"), epoch),
            lambda: store.put(MEMBERS, members(filter="late"), epoch, may_wait=True),
            lambda: store.put(OTHER, "late\n", epoch),
            lambda: store.append(TEXT, "late\n", epoch),
            lambda: store.delete(TEXT, epoch),
            lambda: store.delete(MEMBERS, epoch),
            lambda: store.get(TEXT, epoch),
            lambda: store.names(HISTORIES, epoch),
        ):
            with pytest.raises(FencedError) as refusal:
                stale()
            assert refusal.value.details == {"our_epoch": epoch, "current_epoch": newer}
        assert store.get(TEXT, newer) == "old\n"
        assert json.loads(store.get(MEMBERS, newer) or "") == {"filter": "old"}
        assert store.names(HISTORIES, newer) == ["s0"]
        store.claim(newer)
        store.append(TEXT, "new\n", newer)
        assert store.get(TEXT, newer) == "old\nnew\n"

    @pytest.mark.parametrize(
        "call",
        [
            lambda store, epoch: store.names(HISTORIES, epoch),
            lambda store, epoch: store.get(TEXT, epoch),
            lambda store, epoch: store.get(OTHER, epoch),
            lambda store, epoch: store.get(MEMBERS, epoch),
            lambda store, epoch: store.put(OTHER, "x\n", epoch),
            lambda store, epoch: store.append(TEXT, "", epoch),
            lambda store, epoch: store.delete(OTHER, epoch),
        ],
    )
    def test_any_call_under_a_newer_epoch_refuses_the_one_before(
        self, store: EpochStore, epoch: int, elect: Elect, call: Call
    ) -> None:
        store.put(TEXT, "old\n", epoch)
        store.put(MEMBERS, '{"filter": "old"}\n', epoch)
        newer = elect()
        call(store, newer)
        with pytest.raises(FencedError):
            store.put(TEXT, "late\n", epoch)
        with pytest.raises(FencedError):
            store.put(MEMBERS, '{"filter": "late"}\n', epoch, may_wait=True)
        assert store.get(TEXT, newer) == "old\n"
        assert json.loads(store.get(MEMBERS, newer) or "") == {"filter": "old"}

    def test_a_value_s_address_can_be_named(self, store: EpochStore) -> None:
        assert TEXT.name in store.where(TEXT)
        assert MEMBERS.name in store.where(MEMBERS)

    @pytest.mark.parametrize("name", ["", ".", "../x", "a/b", "a b", "a@b", "x\n", "\x1b[2K", "n" * 129])
    def test_what_cannot_name_a_file_or_a_node_is_not_a_key(self, name: str) -> None:
        with pytest.raises(UsageError, match="cannot be stored among histories"):
            Key(HISTORIES, name)
