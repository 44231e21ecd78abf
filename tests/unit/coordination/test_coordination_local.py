import subprocess
import sys
import threading

import pytest

from canal_group.actors.coordination.local import EPOCH_ZERO_S, LocalCoordinator
from canal_group.actors.ports import ConsumerLease
from canal_group.merge.errors import ConfigError, CoordinatorUnavailable, FencedError, UsageError

DEADLINE_S = 20


def campaign_in_thread(coordinator):
    won = threading.Event()
    epochs = []

    def run():
        epochs.append(coordinator.campaign())
        won.set()

    threading.Thread(target=run, daemon=True).start()
    return won, epochs


def test_a_server_stands_by_until_it_has_campaigned(tmp_path):
    coordinator = LocalCoordinator("shop", tmp_path)
    with pytest.raises(CoordinatorUnavailable):
        coordinator.check_active()
    with pytest.raises(CoordinatorUnavailable):
        coordinator.lease_consumer("1001", "me")
    assert coordinator.campaign() == 1
    coordinator.check_active()
    coordinator.close()


def test_a_second_server_waits_until_the_first_closes(tmp_path):
    """Two servers of one machine.

    1. the first wins; 2. the second waits; 3. the first closes: the second wins with a higher epoch; 4. the
    first is fenced, and a consumer that it would lease to is not remembered.
    """
    first, second = LocalCoordinator("shop", tmp_path), LocalCoordinator("shop", tmp_path)
    epoch = first.campaign()
    won, epochs = campaign_in_thread(second)
    assert not won.wait(0.5)
    with pytest.raises(CoordinatorUnavailable):
        second.check_active()
    first.close()
    assert won.wait(DEADLINE_S)
    assert epochs[0] > epoch
    second.check_active()
    with pytest.raises(FencedError):
        first.check_active()
    with pytest.raises(FencedError):
        first.lease_consumer("1001", "late")
    assert second.consumers() == []
    second.close()


def test_a_killed_server_gives_way(tmp_path):
    script = (
        "import sys, pathlib; from canal_group.actors.coordination.local import LocalCoordinator\n"
        "print(LocalCoordinator('shop', pathlib.Path(sys.argv[1])).campaign(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout.readline() == b"1\n"
        second = LocalCoordinator("shop", tmp_path)
        won, epochs = campaign_in_thread(second)
        assert not won.wait(0.5)
        holder.kill()
        assert won.wait(DEADLINE_S)
        assert epochs == [2]
        second.close()


def test_other_destinations_do_not_wait(tmp_path):
    first, second = LocalCoordinator("shop", tmp_path), LocalCoordinator("stock", tmp_path)
    assert first.campaign() == 1
    assert second.campaign() == 1
    first.close()
    second.close()


def test_closing_ends_a_waiting_campaign(tmp_path):
    first, second = LocalCoordinator("shop", tmp_path), LocalCoordinator("shop", tmp_path)
    first.campaign()
    ended = threading.Event()

    def run():
        with pytest.raises(UsageError):
            second.campaign()
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    second.close()
    assert ended.wait(DEADLINE_S)
    first.check_active()
    first.close()


def test_epochs_grow_over_restarts(tmp_path):
    for expected in (1, 2, 3):
        coordinator = LocalCoordinator("shop", tmp_path)
        assert coordinator.campaign() == expected
        lease = coordinator.lease_consumer("1001", f"reader-{expected}")
        assert lease == ConsumerLease("1001", f"reader-{expected}", expected)
        coordinator.close()
    coordinator = LocalCoordinator("shop", tmp_path)
    coordinator.campaign()
    coordinator.lease_consumer("0007", "other")
    coordinator.release_consumer("1001")
    assert coordinator.consumers() == [
        ConsumerLease("0007", "other", 4),
        ConsumerLease("1001", "reader-3", 3),
    ]
    coordinator.forget_consumer("0007")
    coordinator.forget_consumer("0007")
    assert coordinator.consumers() == [ConsumerLease("1001", "reader-3", 3)]
    assert coordinator.lease_consumer("0007", "again").epoch == 5, "what was kept of nobody grows on"
    coordinator.close()


def test_epochs_in_memory_grow_from_process_to_process():
    first = LocalCoordinator("shop", now_s=lambda: EPOCH_ZERO_S + 100.7)
    assert first.campaign() == 100
    assert first.campaign() == 101
    assert first.lease_consumer("1001", "a").epoch == 100
    assert first.lease_consumer("1001", "b").epoch == 101
    first.close()
    restarted = LocalCoordinator("shop", now_s=lambda: EPOCH_ZERO_S + 102.0)
    assert restarted.campaign() == 102
    assert restarted.lease_consumer("1001", "c").epoch == 102


def test_a_machine_clock_before_2026_still_gives_growing_epochs():
    coordinator = LocalCoordinator("shop", now_s=lambda: 0.0)
    assert [coordinator.campaign(), coordinator.campaign()] == [1, 2]


def test_a_file_of_epochs_cut_anywhere_is_refused_and_never_begins_anew(tmp_path):
    coordinator = LocalCoordinator("shop", tmp_path)
    coordinator.campaign()
    coordinator.lease_consumer("1001", "me")
    coordinator.close()
    file = tmp_path / "shop.epochs.json"
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        cut = LocalCoordinator("shop", tmp_path)
        if length == len(whole) - 1:  # only the last line feed is missing
            assert cut.campaign() == 2
        else:
            with pytest.raises(ConfigError, match=r"shop\.epochs\.json"):
                cut.campaign()
            with pytest.raises(CoordinatorUnavailable):
                cut.check_active()
        cut.close()


def test_a_name_that_cannot_be_a_file_is_refused(tmp_path):
    with pytest.raises(ConfigError):
        LocalCoordinator("../shop", tmp_path)
