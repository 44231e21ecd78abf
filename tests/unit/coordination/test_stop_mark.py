import pytest

from canal_group.actors.coordination.local import LocalCoordinator
from canal_group.actors.coordination.switch import LocalSwitch
from canal_group.merge.errors import FencedError
from canal_group.zookeeper.stop_mark import StopMark

MARK = StopMark("ops@host", "2026-01-01T00:00:00+00:00", "moving house")


def test_a_mark_has_its_author_time_and_reason():
    assert str(MARK) == "stopped by ops@host at 2026-01-01T00:00:00+00:00 (moving house)"
    assert StopMark.from_json(MARK.to_json()) == MARK


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"7", b"\xff", b"[" * 100_000])
def test_any_content_of_the_node_stops(text):
    assert "stopped by somebody" in str(StopMark.from_json(text))


def test_a_folders_switch_stops_for_good_and_the_first_mark_stays(tmp_path):
    switch = LocalSwitch(tmp_path / "new", "shop")
    assert switch.start() is None
    assert switch.stop(MARK, 0) == MARK
    assert switch.stop(StopMark("other", "later"), 0) == MARK
    assert switch.start() == MARK
    assert switch.start() is None


def test_a_local_server_obeys_the_mark_and_campaigns_again(tmp_path):
    """1. it serves; 2. it is stopped, and resigns; 3. started, it wins with a higher epoch."""
    server, switch = LocalCoordinator("shop", tmp_path), LocalSwitch(tmp_path, "shop")
    epoch = server.campaign()
    assert server.stop_mark() is None
    switch.stop(MARK, 0)
    assert server.stop_mark() == MARK
    server.resign()
    with pytest.raises(FencedError):
        server.check_active()
    switch.start()
    assert server.campaign() > epoch
    server.check_active()
    server.close()


def test_other_destinations_of_the_folder_go_on(tmp_path):
    LocalSwitch(tmp_path, "shop").stop(MARK, 0)
    other = LocalCoordinator("stock", tmp_path)
    other.campaign()
    assert other.stop_mark() is None
    other.close()
