from pathlib import Path

import pytest

from canal_group.conf.folder import FolderContent, changes, read_folder
from canal_group.merge.errors import ConfigError


def write(folder: Path, name: str, destination: str, **more: str) -> Path:
    file = folder / name
    extra = "".join(f"{key}: {value}\n" for key, value in more.items())
    file.write_text(
        f"preset: memory\ndestination: {destination}\nshards: [{{name: a, host: h, user: u}}]\n{extra}"
    )
    return file


def applied(folder: Path, running=None):
    """Return the changes of a scan, and what runs after it."""
    running = {} if running is None else dict(running)
    found = changes(running, read_folder(folder))
    for file in found.stop:
        del running[file]
    running |= {**found.restart, **found.start}
    return found, running


def test_files_are_started_restarted_and_stopped(tmp_path):
    shop = write(tmp_path, "shop.yaml", "shop")
    first, running = applied(tmp_path)
    assert list(first.start) == [shop]
    again, running = applied(tmp_path, running)
    assert (again.stop, again.start, again.restart) == ((), {}, {})
    stock = write(tmp_path, "stock.yml", "stock")
    write(tmp_path, "shop.yaml", "shop", start="earliest")
    second, running = applied(tmp_path, running)
    assert (list(second.start), list(second.restart), second.stop) == ([stock], [shop], ())
    shop.unlink()
    third, running = applied(tmp_path, running)
    assert third.stop == (shop,)
    assert list(running) == [stock]


def test_added_and_removed_shards_are_adopted_and_the_rest_restarts(tmp_path):
    shop = tmp_path / "shop.yaml"

    def said(*names: str, **more: str):
        shards = ", ".join(f"{{name: {name}, host: {name}, user: u}}" for name in names)
        extra = "".join(f"{key}: {value}\n" for key, value in more.items())
        shop.write_text(f"preset: memory\ndestination: shop\nshards: [{shards}]\n{extra}")
        return changes(running, read_folder(tmp_path))

    shop.write_text("preset: memory\ndestination: shop\nshards: [{name: a, host: a, user: u}]\n")
    _, running = applied(tmp_path)
    for names in (("a", "b"), ("b",)):
        found = said(*names)
        assert ([*found.adopt], [*found.restart], [*found.start], found.stop) == ([shop], [], [], ())
    assert [shard.name for shard in found.adopt[shop].shards] == ["b"]
    for found in (said("b", "a"), said("a", "b", start="earliest")):
        assert ([*found.adopt], [*found.restart]) == ([], [shop])


def test_an_edited_comment_restarts_nothing_and_a_changed_password_does(tmp_path):
    (tmp_path / "secret").write_text("one")
    shop = tmp_path / "shop.yaml"
    text = "preset: memory\ndestination: shop\nshards: [{name: a, host: h, user: u, password_file: secret}]\n"
    shop.write_text(text)
    _, running = applied(tmp_path)
    shop.write_text(f"# a comment\n{text}")
    assert not applied(tmp_path, running)[0].restart
    (tmp_path / "secret").write_text("two")
    assert list(applied(tmp_path, running)[0].restart) == [shop]


def test_a_broken_file_is_named_and_changes_nothing(tmp_path):
    shop, stock = write(tmp_path, "shop.yaml", "shop"), write(tmp_path, "stock.yaml", "stock")
    _, running = applied(tmp_path)
    shop.write_text("preset: memory\ndestination: shop\nshards: [{name: a, hots: h}]\n")
    stock.write_text("{")
    broken, after = applied(tmp_path, running)
    assert (broken.stop, broken.start, broken.restart) == ((), {}, {})
    assert "hots" in str(broken.refused[shop])
    assert stock in broken.refused
    assert after == running


def test_of_two_files_with_one_destination_the_running_one_stays(tmp_path):
    later = write(tmp_path, "b.yaml", "shop")
    _, running = applied(tmp_path)
    earlier = write(tmp_path, "a.yaml", "shop")
    twins, running = applied(tmp_path, running)
    assert not twins.start
    assert str(later) in str(twins.refused[earlier])
    later.unlink()
    found, running = applied(tmp_path, running)
    assert (found.stop, list(found.start)) == ((later,), [earlier])
    assert list(running) == [earlier]


def test_a_file_that_takes_anothers_destination_is_left_as_it_was(tmp_path):
    shop, stock = write(tmp_path, "a.yaml", "shop"), write(tmp_path, "b.yaml", "stock")
    _, running = applied(tmp_path)
    write(tmp_path, "b.yaml", "shop")
    found, after = applied(tmp_path, running)
    assert (list(found.refused), found.stop, found.restart) == ([stock], (), {})
    assert after[shop].destination == "shop"


def test_other_files_are_left_alone(tmp_path):
    write(tmp_path, ".shop.yaml.swp", "shop")
    write(tmp_path, ".hidden.yaml", "shop")
    write(tmp_path, "README.md", "shop")
    (tmp_path / "folder.yaml").mkdir()
    assert read_folder(tmp_path) == FolderContent()


def test_a_missing_folder_gets_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match="readable folder"):
        read_folder(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 2024-13-45", "has a value that cannot be read (ValueError)"),
        (f"a: {'9' * 5000}", "has a value that cannot be read (ValueError)"),
        (f"a: {'[' * 3000}{']' * 3000}", "has a value that cannot be read (RecursionError)"),
        ("a: &a [*a]", "has more with its aliases"),
        (
            "a0: &a0 [x, x]\n" + "".join(f"a{n + 1}: &a{n + 1} [*a{n}, *a{n}]\n" for n in range(40)),
            "has more with its aliases",
        ),
        (f"# {'x' * (1 << 20)}", "should have at most 1048576 bytes, but has more"),
        ("preset: memory\ndestination: shop\nshards: [{name: a, host: h, user: u, port: .inf}]", "`shards"),
    ],
    ids=["date", "digits", "depth", "itself", "aliases", "length", "infinity"],
)
def test_a_broken_file_ends_none_of_the_others(tmp_path, text, said):
    """A library raises whatever it likes; each of these ended the process once."""
    write(tmp_path, "shop.yaml", "shop")
    (tmp_path / "broken.yaml").write_text(text)
    found, running = applied(tmp_path)
    assert [file.name for file in running] == ["shop.yaml"]
    ((file, error),) = found.refused.items()
    assert file.name == "broken.yaml"
    assert said in str(error)
    assert len(str(error)) < 500
