"""When the group goes on without a silent shard, and waits for it again."""

import pytest

from canal_group.merge.order.dead_shard import SILENCE_MAX_US, WAIT, DeadShard

SECOND = 1_000_000
AFTER = DeadShard("skip_after", SECOND)


@pytest.mark.parametrize(
    ("policy", "silent_us", "skipped"),
    [(WAIT, 10**15, False), (AFTER, SECOND, False), (AFTER, SECOND + 1, True)],
)
def test_which_silence_makes_the_group_go_on_without_a_shard(policy, silent_us, skipped):
    assert policy.skips(silent_us) is skipped


@pytest.mark.parametrize(
    ("policy", "lag_us", "again"),
    [(WAIT, 10**15, True), (AFTER, SECOND, True), (AFTER, SECOND + 1, False)],
)
def test_with_which_lag_the_group_waits_for_a_shard_again(policy, lag_us, again):
    assert policy.waits_again(lag_us) is again


@pytest.mark.parametrize(("policy", "silence_max_us"), [(WAIT, SILENCE_MAX_US), (AFTER, SECOND)])
def test_after_which_silence_an_open_transaction_is_taken_back(policy, silence_max_us):
    assert not policy.takes_back(silence_max_us)
    assert policy.takes_back(silence_max_us + 1)
