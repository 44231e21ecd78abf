"""What a shard that comes over the gateway may name of this machine, and to whom its password goes."""

from __future__ import annotations

import json

import pytest

from canal_group.conf.changes import added_shard, is_same_shard
from canal_group.conf.load import build_instance
from canal_group.merge.errors import ConfigError

SECRET = "hunter2-hunter2"
LISTED = "b.db.example.com"


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    for name in ("USED", "LISTED", "OTHER"):
        monkeypatch.setenv(name, f"{SECRET}-{name}")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "b").write_text(SECRET)
    (tmp_path / "token").write_text(SECRET)
    return folder


def instance(tmp_path, **shard_add):
    (tmp_path / "used").write_text(SECRET)
    shards = [
        {"name": "a", "host": "a", "user": "canal", "password_env": "USED"},
        {
            "name": "file",
            "host": "f",
            "user": "canal",
            "password_file": "used",
            "ssl": {"ca": "ca.pem", "cert": "cert.pem", "key": "key.pem"},
        },
        {
            "name": "files",
            "files": "binlogs",
            "lookup": {"host": "l", "port": 3307, "user": "canal", "password_env": "OTHER"},
        },
    ]
    settings = {"hosts": ["*.db.example.com"], **shard_add}
    values = {"preset": "memory", "destination": "shop", "shards": shards, "shard_add": settings}
    gateway = {"clients": [{"name": "x", "token_file": "token"}]}
    (tmp_path / "token").write_text(SECRET)
    return build_instance({**values, "gateway": gateway}, folder=tmp_path)


def added(running, **keywords):
    return added_shard(running, {"name": "b", "host": LISTED, "user": "canal", **keywords})


def refused(running, **keywords):
    with pytest.raises(ConfigError) as caught:
        added(running, **keywords)
    message = str(caught.value)
    assert SECRET not in message
    assert "No such file" not in message, "whether there is a file is nobody's business"
    return message.removeprefix("shard b: ")


def test_by_default_no_file_and_no_variable_is_read_for_a_command(tmp_path, folder):
    running = instance(tmp_path)
    token = str(tmp_path / "token")
    assert refused(running, password_file=token) == (
        "`password_file` should name a file in `shard_add.secrets` of the server's instance file, or the "
        "same as a shard of the instance file, but it does not."
    )
    assert refused(running, password_env="LISTED").startswith(
        "`password_env` should be one of `shard_add.variables`"
    )
    for file in (str(folder / "b"), "b", "/etc/passwd", "/nowhere", "used", ""):
        assert "`password_file`" in refused(running, password_file=file)
    for key in ("ca", "cert", "key"):
        assert f"`ssl.{key}`" in refused(running, ssl={"ca": None, key: token})
    assert "`files`" in refused(running, files="/var/lib/mysql", host=None, user=None)
    for key, value in {"password_file": token, "password_env": "LISTED", "ssl": {"ca": token}}.items():
        lookup = {"host": LISTED, "user": "canal", key: value}
        allowed = instance(tmp_path, files=str(tmp_path))
        assert "`lookup." in refused(allowed, files=str(tmp_path), lookup=lookup)
    assert added(running).password.get_secret_value() == ""


def test_what_shards_of_the_instance_file_name_may_be_named_again(tmp_path):
    running = instance(tmp_path)
    assert added(running, password_env="USED").password.get_secret_value() == f"{SECRET}-USED"
    ssl = {key: str(tmp_path / f"{key}.pem") for key in ("ca", "cert", "key")}
    again = added(running, password_file=str(tmp_path / "used"), ssl=ssl)
    assert again.password.get_secret_value() == SECRET
    assert "`ssl.ca`" in refused(running, ssl={"ca": ssl["key"]}), "what it is named for, and nothing else"


def test_a_folder_s_files_may_be_named_and_none_by_a_path(tmp_path, folder):
    running = instance(tmp_path, secrets="secrets", variables=["LISTED"])
    assert added(running, password_env="LISTED").password.get_secret_value() == f"{SECRET}-LISTED"
    assert "`password_env`" in refused(running, password_env="HOME")
    for name in ("b", str(folder / "b")):
        shard = added(running, password_file=name)
        assert shard.password.get_secret_value() == SECRET
        assert shard.password_file == folder / "b"
    (folder / "deep").mkdir()
    (folder / "deep" / "c").write_text(SECRET)
    (folder / "inside").symlink_to("b")
    (folder / "link").symlink_to(tmp_path / "token")
    (folder / "loop").symlink_to("loop")
    assert added(running, password_file="inside").password.get_secret_value() == SECRET
    for name in (
        *("../token", "deep/c", "./b", "..", ".", "", "none", "deep", "link", "loop", "b\0", "/etc/passwd"),
        *(f"{folder}/../token", f"{folder}//b", f"{folder}/deep/c", str(tmp_path / "token"), str(folder)),
    ):
        assert "`password_file`" in refused(running, password_file=name)
    for value in (["b"], {"b": 1}, 7, True):
        assert "`password_file`" in refused(running, password_file=value)


def test_binlog_files_are_read_below_their_folder_only(tmp_path):
    running = instance(tmp_path, files=str(tmp_path / "backup"))

    def files(path):
        return added_shard(running, {"name": "b", "files": path}).files

    assert files("b") == files(str(tmp_path / "backup" / "b")) == tmp_path / "backup" / "b"
    assert files("b/mysql-bin.*") == tmp_path / "backup" / "b" / "mysql-bin.*"
    for path in ("../used", "b/../../used", "/etc", str(tmp_path), f"{tmp_path}/backup-2", "\0", 7):
        with pytest.raises(ConfigError, match="`files` should name files below"):
            files(path)


def test_a_key_of_an_archive_is_a_file_in_the_folder_of_secrets(tmp_path, folder):
    running = instance(tmp_path, secrets="secrets", files=str(tmp_path / "backup"))
    definition = {"name": "b", "files": "b"}
    assert added_shard(running, {**definition, "key_file": "b"}).key_file == folder / "b"
    with pytest.raises(ConfigError, match=r"`key_file` should name a file in `shard_add\.secrets`"):
        added_shard(running, {**definition, "key_file": str(tmp_path / "token")})


ELSEWHERE = (
    "should be for a host in `shard_add.hosts` of the server's instance file, or for a server that a shard "
    "there uses it for, with the same `ssl` and `clear_password`, but it is not."
)


def test_a_password_is_used_only_for_the_servers_named_for_it(tmp_path, folder):
    """Whoever is logged in to with it may pass a source's challenge on, and be let in there by our answer."""
    running = instance(tmp_path, secrets="secrets", variables=["LISTED"])
    used = str(tmp_path / "used")
    for secret in (
        *({"password_env": name} for name in ("USED", "LISTED", "OTHER", "HOME", "")),
        *({"password_file": name} for name in (used, "used", "b", str(folder / "b"), "none", "/etc/passwd")),
        {"password_file": ["b"]},
    ):
        (key,) = secret
        for host in ("evil.example.com", "evil.db.example.com.evil.com", "127.0.0.1", "::1", "a", "f", "l"):
            where = {"host": host, "port": 3308}
            assert refused(running, **where, **secret) == f"`{key}` {ELSEWHERE}"
            if secret != {"password_file": ["b"]}:
                lookup = {"user": "canal", **where, **secret}
                with pytest.raises(ConfigError, match=f"`lookup.{key}` should be for a host"):
                    added_shard(instance(tmp_path, files="/x"), {"name": "b", "files": "y", "lookup": lookup})
    assert added(running, host="evil.example.com").password.get_secret_value() == "", "none goes anywhere"


def test_the_server_of_the_instance_file_may_use_its_password(tmp_path):
    """As a shard comes back that was removed, or as the lookup of files."""
    running = instance(tmp_path, files="/backup")
    ssl = {key: str(tmp_path / f"{key}.pem") for key in ("ca", "cert", "key")}

    def looked_up(host, **definition):
        lookup = {"host": host, "user": "canal", **definition}
        return added_shard(running, {"name": "b", "files": "y", "lookup": lookup}).lookup

    assert looked_up("A", password_env="USED").password.get_secret_value() == f"{SECRET}-USED"
    assert looked_up("l", port=3307, password_env="OTHER").password.get_secret_value() == f"{SECRET}-OTHER"
    assert looked_up("f", password_file=str(tmp_path / "used"), ssl=ssl).ssl is not None
    for definition in (
        {"host": "a", "password_env": "OTHER"},
        {"host": "l", "port": 3307, "password_env": "USED"},
        {"host": "l", "password_env": "OTHER"},
        {"host": "a", "port": 3307, "password_env": "USED"},
        {"host": "a", "password_env": "USED", "ssl": {"verify": False}},
        *(
            {"host": "f", "password_file": str(tmp_path / "used"), "ssl": other}
            for other in (None, {}, {**ssl, "ca": None}, {**ssl, "verify": False})
        ),
    ):
        with pytest.raises(ConfigError, match=r"should be for a host in `shard_add\.hosts`"):
            looked_up(**definition)
    again = {
        "name": "file",
        "host": "f",
        "user": "canal",
        "password_file": str(tmp_path / "used"),
        "ssl": ssl,
    }
    assert added_shard(running, again) == running.shards[1]


def test_a_host_is_listed_by_its_address_or_by_its_name(tmp_path):
    hosts = ["*.db.example.com", "one", "10.1.0.0/16", "192.0.2.7", "fd00::/8"]
    running = instance(tmp_path, hosts=hosts)
    for host in (
        "a.db.example.com",
        "A.DB.example.com",
        "ONE",
        "10.1.2.3",
        "192.0.2.7",
        "fd00::7",
        "FD00:0::7",
    ):
        assert added(running, host=host, password_env="USED").host == host
    for host in (
        *("10.1.2.3.evil.com", "10.1.evil.com", "10.1.evil", "10.1", "10.1.515", "0xa.1.2.3", "167838211"),
        *(
            "a.b.db.example.com",
            "db.example.com",
            ".db.example.com.",
            "one.",
            "two",
            "10.2.0.1",
            "192.0.2.70",
        ),
        *("::ffff:10.1.2.3", "fe00::7", "\uff11\uff10.1.2.3"),
    ):
        assert ELSEWHERE in refused(running, host=host, password_env="USED")


@pytest.mark.parametrize(
    "entry",
    [
        *(
            "10.*.*.*",
            "10.1.*",
            "*.*.*.*",
            "*",
            "db.*",
            "10.0.0.?",
            "10.0.0.0/33",
            "10.0.0.7/8",
            "10.1",
            "0x7f.1",
        ),
        *("db-*.example.com", "", ".", "a..b", "a:3306", "[::1]", "a b", "*.1", "*.0xa"),
    ],
)
def test_an_entry_that_could_fit_names_and_addresses_is_refused(entry, tmp_path):
    with pytest.raises(
        ConfigError, match=r"`shard_add\.hosts\[0\]` should be addresses such as .*10\.0\.0\.0/8"
    ):
        instance(tmp_path, hosts=[entry])


def test_what_a_command_defined_is_the_shard_that_the_file_has_then(tmp_path, folder):
    """Nothing of it says that it came by command: a file that has it then changes nothing."""
    running = instance(tmp_path, secrets="secrets")
    shard = added(running, password_file="b")
    definition = json.loads(shard.model_dump_json(exclude_defaults=True))
    in_file = type(shard).model_validate(definition)
    assert is_same_shard(shard, in_file)
    assert shard == in_file


def commanded(tmp_path, **shard):
    """An instance whose shard `a` runs a command for its password."""
    login = {"password_command": ["vault", "read", "a"], "ssl": {"ca": "ca.pem"}, **shard}
    values = {"preset": "memory", "destination": "shop", "shard_add": {"hosts": ["*.db.example.com"]}}
    return build_instance(
        {**values, "shards": [{"name": "a", "host": "a", "user": "canal", **login}]}, folder=tmp_path
    )


def test_a_command_of_a_client_runs_no_program_of_its_own(tmp_path):
    running = commanded(tmp_path)
    ssl = {"ca": str(tmp_path / "ca.pem")}
    known = added(running, password_command=["vault", "read", "a"], ssl=ssl)
    assert known.password_command == ("vault", "read", "a")
    for program in (
        ["vault", "read", "b"],
        ["vault", "read"],
        ["sh", "-c", "id"],
        "vault",
        ["vault", "read", 1],
    ):
        assert refused(running, password_command=program, ssl=ssl) == (
            "`password_command` should be the same as one of a shard of the server's instance file, "
            "but it is not."
        )
    elsewhere = refused(running, host="evil.example", password_command=["vault", "read", "a"], ssl=ssl)
    assert elsewhere == f"`password_command` {ELSEWHERE}"
    lookup = {"host": LISTED, "user": "canal", "password_command": ["sh"], "ssl": ssl}
    files = build_instance(
        {
            "preset": "memory",
            "destination": "shop",
            "shards": [{"name": "a", "host": "a", "user": "canal"}],
            "shard_add": {"hosts": ["*.db.example.com"], "files": "binlogs"},
        },
        folder=tmp_path,
    )
    with pytest.raises(ConfigError, match=r"`lookup\.password_command` should be the same"):
        added_shard(files, {"name": "b", "files": "b", "lookup": lookup})


def test_a_command_of_a_client_lets_no_other_password_be_shown(tmp_path):
    own = {"host": "a", "password_command": ["vault", "read", "a"], "ssl": {"ca": str(tmp_path / "ca.pem")}}
    assert "`clear_password`" in refused(commanded(tmp_path), **own, clear_password=True)
    assert added_shard(
        commanded(tmp_path, clear_password=True),
        {"name": "a", "user": "canal", **own, "clear_password": True},
    ).clear_password
