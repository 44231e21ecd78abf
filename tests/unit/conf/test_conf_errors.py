"""Whatever is wrong with an instance file is one ConfigError of one sentence: file, key, expected, found."""

import pickle
import re

import pytest

from canal_group.conf.load import build_instance, load_instance
from canal_group.merge.errors import ConfigError
from canal_group.merge.values.start import SHARD_STARTS

GOOD = """\
preset: group
destination: shop
shards:
  - name: a
    host: db0
    user: canal
  - name: b
    host: db1
    user: canal
"""


def refusal(tmp_path, text):
    """The sentence on a file of this text, its folder cut off."""
    file = tmp_path / "shop.yaml"
    file.write_text(text)
    return refused(file).replace(f"{tmp_path}/", "")


def refused(path):
    with pytest.raises(ConfigError) as caught:
        load_instance(path)
    error = caught.value
    assert not error.hint
    assert str(error).count("\n") == 0
    assert str(error).endswith(".")
    assert error.__context__ is None or error.__suppress_context__
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    return str(error)


def test_the_good_file_is_good(tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD)
    assert load_instance(file).destination == "shop"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        # a server or files
        (
            "host: db1\n    user: canal",
            "files: log\n    user: canal",
            "`shards[1].user` should be given only without `files`, but both are given",
        ),
        (
            "host: db1\n    user: canal",
            "files: log\n    start: latest",
            "`shards[1].start` should be earliest, a time or a file and offset with `files`, but is 'latest'",
        ),
        (
            "host: db1\n    user: canal",
            "files: log\n    start: 0-1-42",
            "`shards[1].start` should be earliest, a time or a file and offset with `files`, but is '0-1-42'",
        ),
        (
            "host: db1",
            "host: db1\n    follow: true",
            "`shards[1].follow` should be given only with `files`, but that is missing",
        ),
        ("host: db1\n    user: canal", "host: db1", "`shards[1].user` should be given, but is missing"),
        (
            "host: db1",
            "host: db1\n    start_by: clock",
            "`shards[1].start_by` should be 'auto', 'gtid', 'file' or 'time', but is 'clock'",
        ),
        # unknown keys
        ("host: db1", "hst: db1", "`shards[1].hst` should be a known key (nearest: host), but is unknown"),
        (
            "host: db1",
            "host: db1\n    prot: 1",
            "`shards[1].prot` should be a known key (nearest: port), but is unknown",
        ),
        (
            "destination:",
            "destinaton:",
            "`destinaton` should be a known key (nearest: destination), but is unknown",
        ),
        ("preset:", "presets:", "`presets` should be a known key (nearest: preset), but is unknown"),
        (
            "shards:",
            "filter: {qq: 1}\nshards:",
            (
                "`filter.qq` should be a known key"
                " (known: black, history, routes, salt_env, salt_file, tables, white), but is unknown"
            ),
        ),
        (
            "shards:",
            "coordination: {kind: zookeeper, hosts: 'a:1', folder: x}\nshards:",
            "`coordination.folder` should be a known key (known: hosts, kind, password_env, password_file,",
        ),
        (
            "shards:",
            "filter: {routes: [{match: a, too: b}]}\nshards:",
            "`filter.routes[0].too` should be a known key (nearest: to), but is unknown",
        ),
        (
            "host: db1",
            "host: db1\n    ssl: {cart: x}",
            "`shards[1].ssl.cart` should be a known key (nearest: cert), but is unknown",
        ),
        # missing
        ("    host: db1\n", "", "`shards[1].host` should be given, or `files`, but is missing"),
        ("destination: shop\n", "", "`destination` should be given, but is missing"),
        ("preset: group", "", "`coordination` should be given, but is missing"),
        (
            "preset: group",
            "coordination: {}",
            "`coordination.kind` should be one of 'zookeeper', 'embedded', 'local', but is missing",
        ),
        # wrong types and values
        ("host: db1", "host: db1\n    port: 'x'", "`shards[1].port` should be a whole number, but is 'x'"),
        (
            "host: db1",
            "host: db1\n    port: '3306'",
            "`shards[1].port` should be a whole number, but is '3306'",
        ),
        ("host: db1", "host: db1\n    port: true", "`shards[1].port` should be a whole number, but is true"),
        ("host: db1", "host: db1\n    port: 1.5", "`shards[1].port` should be a whole number, but is 1.5"),
        ("host: db1", "host: db1\n    port:", "`shards[1].port` should be a whole number, but is empty"),
        ("host: db1", "host: db1\n    port: 0", "`shards[1].port` should be at least 1, but is 0"),
        ("host: db1", "host: db1\n    port: 65536", "`shards[1].port` should be at most 65535, but is 65536"),
        ("host: db1", "host: [db1]", "`shards[1].host` should be text, but is a list"),
        ("host: db1", "host: 10", "`shards[1].host` should be text, but is 10"),
        (
            "host: db1",
            "host: 'db1:3306'",
            "`shards[1].host` should be a host name or address, without a port, but is 'db1:3306'",
        ),
        (
            "host: db1",
            "host: ''",
            "`shards[1].host` should be a host name or address, without a port, but is ''",
        ),
        ("user: canal", "user: ''", "`shards[0].user` should be text that is not empty, but is ''"),
        (
            "host: db1",
            "host: db1\n    server_id: 4294967296",
            "`shards[1].server_id` should be at most 4294967295, but is 4294967296",
        ),
        ("host: db1", "host: db1\n    server_id: 0", "`shards[1].server_id` should be at least 1, but is 0"),
        (
            "host: db1",
            "host: db1\n    start: now",
            f"`shards[1].start` should be {SHARD_STARTS}, but is 'now' ('now' is not a start).",
        ),
        (
            "host: db1",
            "host: db1\n    start: 2026-01-31T12:00:00",
            f"`shards[1].start` should be {SHARD_STARTS}, but is '2026-01-31T12:00:00' (The start ",
        ),
        ("host: db1", "host: db1\n    ssl: true", "`shards[1].ssl` should be a mapping, but is true"),
        (
            "host: db1",
            "host: db1\n    ssl: {verify: 1}",
            "`shards[1].ssl.verify` should be true or false, but is 1",
        ),
        ("host: db1", "host: db1\n    ssl: {ca: 1}", "`shards[1].ssl.ca` should be a path, but is 1"),
        (
            "host: db1",
            "host: db1\n    ssl: {cert: x}",
            "`shards[1].ssl.key` should be given together with `cert`, but is missing",
        ),
        (
            "host: db1",
            "host: db1\n    ssl: {key: x}",
            "`shards[1].ssl.cert` should be given together with `key`, but is missing",
        ),
        ("destination: shop", "destination: 12", "`destination` should be text, but is 12"),
        ("destination: shop", "destination: 2024-01-01", "`destination` should be text, but is a date"),
        ("shards:", "batch:\nshards:", "`batch` should be a mapping, but is empty"),
        ("shards:", "batch: [1]\nshards:", "`batch` should be a mapping, but is a list"),
        (
            "shards:",
            "batch: {rows_max: {}}\nshards:",
            "`batch.rows_max` should be a whole number, but is a mapping",
        ),
        ("shards:", "consumer: {lease_s: 0}\nshards:", "`consumer.lease_s` should be more than 0, but is 0"),
        (
            "shards:",
            "consumer: {lease_s: .inf}\nshards:",
            "`consumer.lease_s` should be a finite number, but is inf",
        ),
        ("shards:", "consumer: {lease_s: x}\nshards:", "`consumer.lease_s` should be a number, but is 'x'"),
        ("shards:", "store: {size: 1000}\nshards:", "`store.size` should be a power of two, but is 1000"),
        ("shards:", "store: {size: 0}\nshards:", "`store.size` should be a power of two, but is 0"),
        ("shards:", "store: {size: -4}\nshards:", "`store.size` should be a power of two, but is -4"),
        (
            "shards:",
            "coordination: {kind: etcd}\nshards:",
            "`coordination.kind` should be one of 'zookeeper', 'embedded', 'local', but is 'etcd'",
        ),
        (
            "shards:",
            "coordination: {prefix: otter/}\nshards:",
            "`coordination.prefix` should be a ZooKeeper path such as `/otter/canal`, but is 'otter/'",
        ),
        (
            "shards:",
            "coordination: {prefix: /otter/..}\nshards:",
            "`coordination.prefix` should be a ZooKeeper path such as `/otter/canal`, but is '/otter/..'",
        ),
        (
            "shards:",
            "coordination: {kind: zookeeper, hosts: 'a:1, b:2'}\nshards:",
            "`coordination.hosts` should be `host:port`, several separated by commas without spaces, but is",
        ),
        (
            "shards:",
            "ray: {address: here}\nshards:",
            "`ray.address` should be `auto` or `host:port`, but is 'here'",
        ),
        (
            "shards:",
            "filter: {white: 'a,(b'}\nshards:",
            "`filter.white` should be a regular expression (missing ))",
        ),
        (
            "shards:",
            "filter: {routes: [{match: '*', to: a}]}\nshards:",
            "`filter.routes[0].match` should be a regular expression (no argument for repetition operator)",
        ),
        (
            "shards:",
            "filter: {tables: [{match: a, where: 'SLEEP(1)'}]}\nshards:",
            "`filter.tables[0].where` should be an expression (SLEEP(1) is not supported)",
        ),
        (
            "shards:",
            "filter: {tables: [{match: a, computed: [{name: b, expression: 't.c'}]}]}\nshards:",
            "`filter.tables[0].computed[0].expression` should be an expression (column t.c has a table;",
        ),
        (
            "shards:",
            "filter: {history: flag}\nshards:",
            "`filter.history` should be 'drop' or 'keep', but is 'flag'",
        ),
        (
            "shards:",
            "filter: {tables: [{match: a, keep: [upsert]}]}\nshards:",
            "`filter.tables[0].keep[0]` should be",
        ),
        # several keys together
        (
            "shards:",
            "filter: {tables: [{match: a, masks: [{column: b, kind: hash}]}]}\nshards:",
            ("`filter.salt_env` should be given, or `salt_file`, for masks of kind 'hash', but is missing"),
        ),
        (
            "shards:",
            "filter: {tables: [{match: a, masks: [{column: b, kind: last}]}]}\nshards:",
            "`filter.tables[0].masks[0].last` should be given with `kind: last`, but is missing",
        ),
        (
            "shards:",
            "filter: {tables: [{match: a, masks: [{column: b, kind: 'null', value: x}]}]}\nshards:",
            (
                "`filter.tables[0].masks[0].value` should be given only with `kind: constant`, but "
                "kind is 'null'"
            ),
        ),
        (
            "shards:",
            "filter: {tables: [{match: a, rename: [{column: b, to: c}, {column: B, to: d}]}]}\nshards:",
            "`filter.tables[0].rename` should name each column once, but names 'b' twice",
        ),
        ("name: b", "name: a", "`shards[1].name` should be unique, but shards[0] is 'a' too"),
        (
            "host: db1",
            "host: DB0",
            "`shards[1].host` should be a different source, but shards[0] reads DB0:3306 too",
        ),
        (
            "shards:",
            "coordination: {kind: local}\nshards:",
            "`cursor.kind` should be 'zookeeper' only with `coordination.kind` 'zookeeper' or 'embedded'",
        ),
        (
            "shards:",
            "merge: {dead_shard: skip_after}\nshards:",
            "`merge.skip_after_s` should be given with `dead_shard: skip_after`, but is missing",
        ),
        (
            "shards:",
            "merge: {skip_after_s: 3}\nshards:",
            (
                "`merge.skip_after_s` should be given only with `dead_shard: skip_after`, but "
                "dead_shard is 'wait'"
            ),
        ),
        (
            "shards:",
            "merge: {order_by: {shop.orders: id}}\nshards:",
            "`merge.commit_within_s` should be given with `order_by`, but is missing",
        ),
        (
            "shards:",
            "merge: {commit_within_s: 3}\nshards:",
            "`merge.commit_within_s` should be given only with `order_by`, but order_by is missing",
        ),
        (
            "shards:",
            "merge: {order_by: {'shop.(': id}, commit_within_s: 3}\nshards:",
            "`merge.order_by` should have regular expressions as keys (missing )), but has 'shop.('",
        ),
        (
            "shards:",
            "merge: {order_by: {shop.orders: 3}, commit_within_s: 3}\nshards:",
            "`merge.order_by.shop.orders` should be",
        ),
        (
            "shards:",
            "merge: {order_by: {}, commit_within_s: 3}\nshards:",
            "`merge.order_by` should",
        ),
        (
            "shards:",
            "reader: {confirm_s: 61}\nshards:",
            "`reader.confirm_s` should be at most 60.0, but is 61",
        ),
        (
            "shards:",
            "reader: {heartbeat_ms: 5000}\nshards:",
            "`reader.read_timeout_s` should be longer than heartbeat_ms (5000 ms), but is 5 s",
        ),
        (
            "shards:",
            "reader: {commit_time: primary}\nshards:",
            "`reader.commit_time` should be 'replica' or 'origin', but is 'primary'",
        ),
        (
            "shards:",
            "reader: {commit_time: origin}\nshards:",
            "`reader.replica_lag_max_s` should be given with `commit_time: origin`, but is missing",
        ),
        (
            "shards:",
            "reader: {replica_lag_max_s: 5}\nshards:",
            (
                "`reader.replica_lag_max_s` should be given only with `commit_time: origin`, but commit_time "
                "is 'replica'"
            ),
        ),
        (
            "shards:",
            "reader: {semi_sync: on}\nshards:",
            "`reader.semi_sync` should be 'off', 'ring', 'cursor' or 'archive', but is true",
        ),
        (
            "shards:",
            "reader: {semi_sync: ring, share_dump: true}\nshards:",
            (
                "`reader.share_dump` should be false with semi_sync: a source waits for replies on the "
                "reader's own connection, but is true"
            ),
        ),
        (
            "shards:",
            "reader: {semi_sync: cursor}\ncursor: {kind: memory}\nshards:",
            (
                "`reader.semi_sync` should be 'cursor' only with cursors that are kept on a disk, but "
                "cursor.kind is 'memory'"
            ),
        ),
        (
            "shards:",
            "reader: {semi_sync: cursor}\ncursor: {kind: file, flush_s: 1}\nshards:",
            (
                "`reader.semi_sync` should be 'cursor' only with cursors that are written before an ack is "
                "answered, but cursor.flush_s is 1 s"
            ),
        ),
        (
            "destination: shop\n",
            f"destination: {'n' * 101}\ncursor: {{kind: file}}\n",
            "`destination` should have at most 100 characters with `cursor.kind` 'file', but has 101",
        ),
        (
            "shards:",
            "ray: {address: auto, num_cpus: 2}\nshards:",
            "`ray.num_cpus` should be given only without `ray.address`, but that is 'auto'",
        ),
        (
            "shards:",
            "ray: {address: auto, spare_process: true}\nshards:",
            "`ray.spare_process` should be given only without `ray.address`, but that is 'auto'",
        ),
        (
            "shards:",
            "archive: {folder: a, disk_high: 0.8}\nshards:",
            "`archive.disk_low` should be less than disk_high (0.8), but is 0.85",
        ),
        (
            "shards:",
            "archive: {folder: a, sync_s: never}\nshards:",
            "`archive.sync_s` should be a number, but is 'never'",
        ),
        (
            "shards:",
            "archive: on\nshards:",
            "`archive` should be a mapping, but is true",
        ),
        (
            "preset: group",
            "preset: file\narchive: {sync_s: 1}",
            "`archive.folder` should be given, but is missing",
        ),
        (
            "shards:",
            "archive: {folder: a}\nfilter: {tables: [{match: a, masks: [{column: c, kind: 'null'}]}]}\nshards:",  # noqa: E501
            (
                "`archive.key_file` should be given, or `clear_text: true`, or `archive: off`: the archive "
                "has every column in clear, also those with masks, but is missing, and filter.tables masks "
                "columns of a"
            ),
        ),
        (
            "shards:",
            "archive: {folder: a}\nreader: {semi_sync: ring}\nshards:",
            (
                "`archive` should be off, or reader.semi_sync be 'archive': a source waits for replies on "
                "the reader's own connection, and an archive is written from one that readers share, but "
                "that is 'ring'"
            ),
        ),
        (
            "shards:",
            "archive: off\nreader: {semi_sync: archive}\nshards:",
            "`reader.semi_sync` should be 'archive' only with an archive, but `archive` is missing",
        ),
        (
            "shards:",
            "archive: off\nstore: {kind: file}\nshards:",
            (
                "`store.kind` should be 'memory', or `archive` be given: rows that the rings do not hold "
                "come from it, but is 'file'"
            ),
        ),
        # the document
        (GOOD, "", "the file should be a mapping of settings, but is empty"),
        (GOOD, "- a", "the file should be a mapping of settings, but is a list"),
        (
            "user: canal\n  - name: b",
            "user: canal\n   - name: b",
            "the file should be YAML, but expected <block end>",
        ),
        (
            "name: a",
            "name: a\n    name: c",
            "the file should be YAML, but has a key twice in line 5, column 5",
        ),
        ("name: a", "1: a", "the file should be YAML, but has a key that is not text in line 4, column 5"),
        (
            "name: a",
            "name: [a",
            "the file should be YAML, but expected ',' or ']', but got ':' in line 5, column 9",
        ),
        ("name: a", "name: a\x07", "the file should be YAML, but has characters that YAML does not allow"),
        # presets
        ("group", "grup", "`preset` should be a preset (nearest: group), but is 'grup'"),
        ("group", "x", "`preset` should be a preset (known: default, file, group, memory), but is 'x'"),
        (
            "group",
            "{group: 1}",
            "`preset` should be a preset (known: default, file, group, memory), but is a mapping",
        ),
        ("group", "../group", "`preset` should be a preset (nearest: group), but is '../group'"),
    ],
)
def test_a_wrong_file_is_refused_with_a_sentence(tmp_path, old, new, sentence):
    assert old in GOOD
    message = refusal(tmp_path, GOOD.replace(old, new, 1))
    assert message.startswith(f"shop.yaml: {sentence}"), message


@pytest.mark.parametrize("shards", ["[]", "{}", "[{}]", "a", "[a]"])
def test_shards_are_a_list_of_at_least_one_mapping(tmp_path, shards):
    message = refusal(tmp_path, f"preset: memory\ndestination: shop\nshards: {shards}\n")
    assert (
        message
        in {
            "[]": "shop.yaml: `shards` should have at least one entry, but is an empty list.",
            "{}": "shop.yaml: `shards` should be a list, but is a mapping.",
            "[{}]": "shop.yaml: `shards[0].name` should be given, but is missing.",
            "a": "shop.yaml: `shards` should be a list, but is 'a'.",
            "[a]": "shop.yaml: `shards[0]` should be a mapping, but is 'a'.",
        }[shards]
    )


@pytest.mark.parametrize("name", ["", ".", "..", ".a", "-a", "a/b", "a b", "ä", "a\n", "x" * 129])
def test_names_are_fit_for_files_and_zookeeper(name):
    shards = [{"name": "s", "host": "h", "user": "u"}]
    with pytest.raises(
        ConfigError, match=r"`destination` should be a name of letters, digits, `_`, `-` and `\.`"
    ):
        build_instance({"preset": "memory", "destination": name, "shards": shards})


@pytest.mark.parametrize("name", ["a", "_", "shop-0.eu_1", "0", "x" * 128])
def test_names_with_digits_underscores_dashes_and_dots_are_good(name):
    shards = [{"name": name, "host": "h", "user": "u"}]
    assert build_instance({"preset": "memory", "destination": name, "shards": shards}).destination == name


def test_the_same_host_on_another_port_is_another_source(tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD.replace("host: db1", "host: db0\n    port: 3307"))
    assert len(load_instance(file).shards) == 2


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    missing = tmp_path / "none.yaml"
    assert (
        refused(missing) == f"{missing}: the file should be readable, but is not (No such file or directory)."
    )
    assert refused(tmp_path) == f"{tmp_path}: the file should be readable, but is not (Is a directory)."


def test_text_that_is_not_utf8_is_refused(tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_bytes(b"destination: \xff\n")
    assert refused(file) == f"{file}: the file should be UTF-8 text, but is not."


def test_an_error_carries_its_parts_as_fields():
    with pytest.raises(ConfigError) as caught:
        build_instance({"preset": "grup"}, source="here")
    assert caught.value.details == {
        "source": "here",
        "key": "preset",
        "expected": "be a preset (nearest: group)",
        "found": "is 'grup'",
    }


def test_a_misspelt_key_is_named_before_the_key_that_is_missing_for_it():
    shards = [{"name": "s", "host": "h", "usr": "u"}]
    with pytest.raises(ConfigError, match=r"`shards\[0\]\.usr` should be a known key \(nearest: user\)"):
        build_instance({"preset": "memory", "destination": "d", "shards": shards})


def test_text_of_several_lines_stays_in_one():
    shards = [{"name": "a\nb", "host": "h", "user": "u"}]
    with pytest.raises(ConfigError, match=r"is 'a\\nb'\.$"):
        build_instance({"preset": "memory", "destination": "d", "shards": shards})


def test_long_text_is_cut():
    shards = [{"name": "s" * 500, "host": "h", "user": "u"}]
    with pytest.raises(ConfigError, match=re.escape(f"is '{'s' * 60}…'.")):
        build_instance({"preset": "memory", "destination": "d", "shards": shards})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost", "LOCALHOST"])
def test_a_gateway_on_loopback_needs_no_token(host):
    shards = [{"name": "s", "host": "h", "user": "u"}]
    values = {"preset": "memory", "destination": "d", "shards": shards, "gateway": {"host": host, "port": 0}}
    assert build_instance(values).gateway.token is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "db.example.com", "localhost.example.com"])
def test_a_gateway_that_others_can_reach_needs_a_token(host, monkeypatch):
    monkeypatch.setenv("TOKEN", "t0ken")
    shards = [{"name": "s", "host": "h", "user": "u"}]
    values = {"preset": "memory", "destination": "d", "shards": shards, "gateway": {"host": host}}
    sentence = (
        "settings: `gateway.host` should be a loopback address without `token_env`, `token_file`, `clients` "
        f"and `ssl.client_ca`, but is '{host}', open to other machines."
    )
    with pytest.raises(ConfigError) as caught:
        build_instance(values)
    assert str(caught.value) == sentence
    values["gateway"]["token_env"] = "TOKEN"
    assert build_instance(values).gateway.token.get_secret_value() == "t0ken"


CANAL_HOST = (
    "settings: `canal.host` should be a loopback address without `user` and `ssl.client_ca`, but is "
    "'0.0.0.0', open to other machines."
)
CANAL_DIGEST = (
    "settings: `canal.password_env` should hold 40 hexadecimal digits after the asterisk, "
    "but it holds others."
)


@pytest.mark.parametrize(
    ("canal", "sentence"),
    [
        ({"host": "0.0.0.0"}, CANAL_HOST),
        (
            {"user": "canal"},
            "settings: `canal.password_env` should be given with `user`, but is missing.",
        ),
        (
            {"password_env": "PASSWORD"},
            "settings: `canal.user` should be given with `password_env`, but is missing.",
        ),
        (
            {"user": "canal", "password_env": "DIGEST"},
            CANAL_DIGEST,
        ),
    ],
)
def test_canals_protocol_is_open_to_this_machine_or_asks_for_a_password(canal, sentence, monkeypatch):
    monkeypatch.setenv("PASSWORD", "pw")
    monkeypatch.setenv("DIGEST", "*00ff")
    shards = [{"name": "s", "host": "h", "user": "u"}]
    values = {"preset": "memory", "destination": "d", "shards": shards, "canal": canal}
    with pytest.raises(ConfigError) as caught:
        build_instance(values)
    assert str(caught.value) == sentence
    built = build_instance({**values, "canal": {"host": "0.0.0.0", "user": "c", "password_env": "PASSWORD"}})
    assert built.canal.password.get_secret_value() == "pw"
    assert "pw" not in repr(built)
