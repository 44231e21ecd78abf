"""What is known of a shard in one generation."""

from canal_group.merge.order.shard_state import ShardState


def test_the_greatest_clock_reading_counts_until_the_shard_catches_up():
    """1. The first reading counts whatever it is. 2. A clock that is set back does not. 3. Then it does."""
    state = ShardState()
    state.read_clock(70, 100)
    assert (state.clock_at_us, state.clock_ahead_us) == (100, -30)
    state.read_clock(150, 110)
    state.read_clock(90, 120)
    assert (state.clock_at_us, state.clock_ahead_us) == (120, 40)
    state.caught_up()
    assert state.clock_ahead_us == -30
    state.read_clock(140, 140)
    assert state.clock_ahead_us == 0
