"""Whatever number stands in whatever field of a call: it is refused, or concerns its own caller alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.group.builders import UUID, Source, Tx, World
from support.soak import cases

from canal_group.merge import events as ev
from canal_group.merge.calls.body import MALFORMED, call_of
from canal_group.merge.calls.call import CALLS
from canal_group.merge.calls.call_field import fields_of
from canal_group.merge.calls.consumers import Ack, AckAndGet, Get, GetRange, Release, Rollback, Touch
from canal_group.merge.errors import CanalGroupError, RolledBack, UsageError
from canal_group.merge.values.position import GroupPosition
from canal_group.merge.values.start import parse_start

NUMBERS = (-1, 0, 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 2**70, 10**30, 10**400)
EXTREMES = (
    *NUMBERS,
    0.5,
    1e300,
    float("nan"),
    float("inf"),
    -float("inf"),
    "",
    "7",
    True,
    None,
    [],
    {},
    [[7]],
)
#: members of a shard's position, and of the group's
SHARD = (
    "file", "offset", "gtid_set", "commit_us", "key_us", "rows_into_transaction", "page_rows", "snapshot",
    "server", "created_s", "origin_id", "last",
)  # fmt: skip
GROUP = ("sequence", "retired", "retired_key_us", "joined", "shards")
#: a number in a place of its own
WITHIN = {
    "file": "bin.{}",
    "gtid_set": UUID + ":1-{}",
    "last": {"gtid": UUID + ":1", "commit_us": 5, "server": "", "file": "bin.000001", "begin_offset": 4},
}

values = st.sampled_from(EXTREMES) | st.integers(-(2**70), 2**70)
fields = st.sampled_from([*SHARD, *GROUP])


def mutated(position: GroupPosition, field: str, value: Any, *, everywhere: bool) -> str:
    """Return the text of a position with another value in one of its members, in one shard or in all."""
    members = json.loads(position.to_json())
    if field in GROUP:
        members[field] = value
        return json.dumps(members)
    for shard in list(members["shards"].values())[: None if everywhere else 1]:
        within = WITHIN.get(field)
        if isinstance(within, str) and isinstance(value, int):
            shard[field] = within.format(value)
        elif isinstance(within, dict):
            shard[field] = {**within, "commit_us": value, "begin_offset": value}
        else:
            shard[field] = value
    return json.dumps(members)


class Shop(World):
    """Two shards, an honest reader, and one that is not; what happens is told by hand, as in a `World`."""

    @classmethod
    def of_two(cls, replays_max: int) -> Shop:
        sources = (Source(*(Tx(10 * n + 10) for n in range(8))), Source(*(Tx(10 * n + 15) for n in range(8))))
        made = cls.of(*sources, lease_us=10**12, replays_max=replays_max)
        assert isinstance(made, Shop)
        made.accepted = []
        made.subscribe("honest")
        made.report(0, 3)
        made.report(1, 3, low_watermark_us=45)
        made.read("honest", 2)
        return made

    def go_on(self) -> None:
        """Let everything happen that was asked for."""
        for _ in range(6):
            while self.leasing:
                self.lease()
            self.open_all()
            self.replay()
            while self.saving:
                self.save()
            self.tick(100_000)

    def read(self, client: str, rows_max: int = 10_000) -> bool:
        """Read and acknowledge one batch of the honest reader; return whether there was one."""
        try:
            batch = self.get(client, rows_max)
            if batch is None:
                return False
            self.ack(batch.batch_id, client)
        except RolledBack:
            return True
        self.accepted += batch.headers[["commit_us", "key_us"]].tolist()
        return True

    def begin_again(self) -> None:
        """Lose the server; the next one begins with what is stored."""
        self.epoch += 1
        self.restart()
        self.start()
        self.go_on()

    def ask(self, call: Any) -> Any:
        """Ask as the hostile reader; return the answer, None if there is none."""
        number = self.call()
        self.tell(ev.Asked(number, call, self.now_us))
        self.go_on()
        if number not in self.answers:
            self.tell(ev.GetTimedOut(number, "hostile"))
        return self.answers.get(number)


def subscribe(shop: Shop, text: str) -> None:
    start = parse_start(text, 10**9)
    assert isinstance(start, GroupPosition)
    shop.request_subscribe("hostile", start=start, move=True)
    shop.go_on()
    shop.ask(Get("hostile", shop.epochs.get("hostile", 0), 100, 0.0))


def read_range(shop: Shop, start: str, until: str | None) -> None:
    if "hostile" not in shop.epochs:
        shop.request_subscribe("hostile")
        shop.go_on()
    between = {"start": start, "until": until, "rows_max": 100, "bytes_max": 1 << 20}
    body = {"client_id": "hostile", "epoch": shop.epochs.get("hostile", 0), "timeout_s": 0}
    batch = shop.ask(call_of(GetRange, {**body, "offset_range": between, "may_rewind": True}))
    if hasattr(batch, "batch_id"):
        shop.ask(Ack("hostile", shop.epochs["hostile"], batch.batch_id))


def call_with(shop: Shop, kind: type[Any], field: str, value: Any) -> None:
    """Make a call of the hostile reader in which one field has another value."""
    body = {"client_id": "hostile", "epoch": shop.epochs.get("hostile", 0), "batch_id": 1 << 32}
    body |= {"rows_max": 5, "timeout_s": 0, "seen_id": None}
    shop.ask(call_of(kind, {**body, field: value}))


POSITIONS = ("subscribe", "start", "until")
CALLS_OF_READERS = (Get, Ack, AckAndGet, Rollback, Touch, Release)
steps = st.one_of(
    st.tuples(st.sampled_from(POSITIONS), fields, values, st.booleans(), st.booleans()),
    st.tuples(
        st.sampled_from([kind for kind in CALLS_OF_READERS if kind is not AckAndGet]),
        st.sampled_from(["epoch", "batch_id", "rows_max", "seen_id", "timeout_s"]),
        values,
    ),
    st.just(("restart",)),
)


def play(shop: Shop, begin: GroupPosition, step: Any) -> None:
    """Do what the hostile reader does, or restart the server."""
    try:
        match step:
            case ("restart",):
                shop.begin_again()
            case (str(how), field, value, bool(everywhere), bool(at_begin)):
                honest = shop.group.describe(0)["clients"][0]["cursor"]
                base = begin if at_begin or honest is None else GroupPosition.from_json(honest)
                text = mutated(base, field, value, everywhere=everywhere)
                if how == "subscribe":
                    subscribe(shop, text)
                else:
                    start, until = (text, None) if how == "start" else (begin.to_json(), text)
                    read_range(shop, start, until)
            case (kind, field, value):
                call_with(shop, kind, field, value)
    except CanalGroupError:
        return
    except MALFORMED as error:
        files = _raised_in(error)
    else:
        return
    assert "merge/calls" in files, "only a reader of a call's fields says that a value is malformed"
    assert "merge/group.py" not in files, "an error left the group's machine"


def _raised_in(error: BaseException) -> str:
    """Return the files through which an error came; the readers of a call's fields may raise others."""
    files, at = [], error.__traceback__
    while at is not None:
        files.append(at.tb_frame.f_code.co_filename)
        at = at.tb_next
    return " ".join(files)


@pytest.mark.parametrize("replays_max", [0, 4], ids=["live", "archive"])
@given(done=st.lists(steps, min_size=1, max_size=6))
@settings(max_examples=cases(300), deadline=None)
def test_an_honest_reader_is_served_in_commit_order(done, replays_max):
    shop = Shop.of_two(replays_max)
    begin = GroupPosition({f"s{index}": source.start for index, source in enumerate(shop.sources)})
    for step in done:
        play(shop, begin, step)
    shop.begin_again()
    shop.request_subscribe("honest")
    shop.go_on()
    shop.report_all()
    shop.go_on()
    while shop.read("honest"):
        shop.go_on()
    commits, keys = zip(*shop.accepted, strict=True)
    assert list(commits) == list(range(10, 90, 5)), "each transaction once, in the order of the commits"
    assert list(keys) == list(commits)


@pytest.mark.parametrize("kind", CALLS.values(), ids=CALLS.keys())
@given(value=values | st.recursive(values, st.lists, max_leaves=3), chosen=st.randoms())
@settings(max_examples=cases(60), deadline=None)
def test_a_call_reads_its_fields_or_refuses_them(kind, value, chosen):
    position = GroupPosition({"s0": Source().start}).to_json()
    known = {
        "client_id": "c", "holder": "h", "epoch": 1, "batch_id": 1, "rows_max": 1, "timeout_s": 0,
        "table": "a.b", "column": "c", "type": None, "shard": "s0", "gtid": "0-1-1", "key": "a.b:1",
        "where": "latest", "to": "latest", "at": "bin.000001:4", "policy": "hold", "start": "latest",
        "offset_range": {"start": position, "until": position, "rows_max": 1, "bytes_max": 1},
    }  # fmt: skip
    names = [field.name for field in fields_of(kind)]
    if not names:
        return
    body = {name: known[name] for name in names if name in known}
    changed = chosen.choice(names)
    body[changed] = value
    if changed == "offset_range":
        within = chosen.choice(["rows_max", "bytes_max", "rows_min", "key_us_max", "start", "until"])
        body[changed] = {**known[changed], within: value}
    try:
        call = call_of(kind, body)
    except (UsageError, *MALFORMED):
        return
    for field in fields_of(kind):
        read = getattr(call, field.name)
        if field.type is int and read is not None:
            assert type(read) is int
            assert field.bounds.least <= read <= field.bounds.most


@given(fields, values, st.booleans())
@settings(max_examples=cases(600))
def test_a_position_is_refused_in_a_sentence_or_has_one_text(field, value, everywhere):
    position = GroupPosition({"s0": Source().start, "s1": Source().start}, 3)
    try:
        found = GroupPosition.from_json(mutated(position, field, value, everywhere=everywhere))
    except UsageError as error:
        sentence = error.message
    else:
        assert GroupPosition.from_json(found.to_json()) == found
        return
    assert len(sentence) < 1_000
