"""Tests of the orders that move between shards: each is on one of them, or on its way."""

from __future__ import annotations

from chaos.moves import ORDERS_EACH, Moves

SHARDS = 4


def test_an_order_is_on_one_shard_and_arrives_after_it_has_left():
    moves, there = Moves(SHARDS, 1), dict[int, int]()
    moved = 0
    for number in range(2_000):
        shard = number % SHARDS
        if (move := moves.next(shard)) is None:
            continue
        if move.leaves:
            assert there.pop(move.order_id) == shard
            moved += 1
        else:
            assert move.order_id not in there
            there[move.order_id] = shard
        moves.committed(shard, move)
    assert moved > 100
    assert len(there) <= SHARDS * ORDERS_EACH


def test_a_shard_that_joined_takes_no_part():
    moves = Moves(SHARDS, 1)
    assert not any(moves.next(SHARDS) for _ in range(100))
