"""What canal's files become: settings that load, and an answer for every entry."""

import datetime as dt

import pytest
import yaml
from unit.migration.canal_files import Conf

from canal_group.conf.load import load_instance
from canal_group.merge.errors import ConfigError
from canal_group.programs.migration.imported import imported
from canal_group.programs.migration.instance_text import instance_text
from canal_group.programs.migration.report import Kind

#: what canal delivers of statements by default
AS_CANAL = {"match": ".*", "keep": ["insert", "update", "delete", "ddl"]}


@pytest.fixture
def conf(tmp_path):
    return Conf(tmp_path)


def import_(conf, **options):
    return imported(conf.files, **{"destination": None, "secrets": conf.secrets, **options})


def values(conf, **options):
    return import_(conf, **options).destinations[0].values


def text_of(result):
    return instance_text(result, result.destinations[0])


def load(conf, **options):
    """The settings as `serve` would load them, from the file that an operator would have."""
    result = import_(conf, **options)
    result.secrets.write()
    file = conf.folder / "out.yaml"
    file.write_text(text_of(result))
    return load_instance(file)


def said(conf, key, **options):
    """What the report says of a key: kinds and texts, without the file and line."""
    return [(each.kind, each.text) for each in import_(conf, **options).answers if each.entry.key == key]


def refusal(conf, **options):
    with pytest.raises(ConfigError) as error:
        import_(conf, **options)
    assert not conf.secrets.exists(), "what is refused has written nothing"
    return str(error.value).replace(f"{conf.folder}/", "")


def test_canal_s_own_files_become_one_shard_with_the_defaults(conf):
    conf.server()
    conf.instance()
    secret = str(conf.secrets / "example.password")
    assert values(conf) == {
        "preset": "file",
        "destination": "example",
        "shards": [{"name": "example", "host": "127.0.0.1", "user": "canal", "password_file": secret}],
        "filter": {"black": r"mysql\.slave_.*", "tables": [AS_CANAL]},
        "canal": {},
    }
    loaded = load(conf)
    assert loaded.shards[0].password.get_secret_value() == "canal"
    assert (conf.secrets / "example.password").stat().st_mode & 0o777 == 0o600
    assert conf.secrets.stat().st_mode & 0o777 == 0o700


def test_every_entry_of_canal_s_own_files_has_an_answer(conf):
    conf.server()
    conf.instance()
    result = import_(conf)
    answered = {answer.entry for answer in result.answers}
    assert answered == {entry for file in result.files for entry in file.entries.values()}
    # canal admits everybody from everywhere unless told otherwise.
    assert [answer.entry.key for answer in result.report.left_to_do] == ["canal.ip"]
    lines = [(answer.entry.file, answer.entry.line) for answer in result.answers]
    assert lines == sorted(lines, key=lambda each: (str(conf.files[1]) == each[0], each[1]))


def test_several_instances_become_one_group_in_their_order(conf):
    conf.server(zkServers="zk1:2181,zk2", destinations="b,a,other")
    conf.instance("b", master__address="db1:3307", dbPassword="one")
    conf.instance("a", master__address="db0", dbPassword="two")
    loaded = load(conf, destination="shop")
    assert [(each.name, each.address) for each in loaded.shards] == [("b", "db1:3307"), ("a", "db0:3306")]
    assert [each.password.get_secret_value() for each in loaded.shards] == ["one", "two"]
    assert (loaded.destination, loaded.coordination.hosts) == ("shop", "zk1:2181,zk2:2181")
    assert (Kind.ACT, "other: import each into an instance file of its own, or as a shard") in said(
        conf, "canal.destinations", destination="shop"
    )
    assert refusal_without_secrets(conf) == (
        "2 instances become the shards of one destination, which has no name yet. Name it with --destination."
        " To keep their streams apart, write a file for each: --into."
    )


def refusal_without_secrets(conf):
    with pytest.raises(ConfigError) as error:
        import_(conf)
    return str(error.value)


def test_the_sources_of_a_group_s_file_become_shards_and_hosts(conf):
    conf.server(instance__global__spring__xml="classpath:spring/group-instance.xml")
    conf.instance(
        "shop",
        master1__address="db0:3306",
        standby1__address="db0b:3306",
        master1__journal__name="mysql-bin.000007",
        master1__position="4711",
        master2__address="db1:3306",
        master2__timestamp="1700000000500",
        master10__address="db2:3306",
        standby2__address="",
    )
    settings = load(conf)
    assert [(each.name, each.servers) for each in settings.shards] == [
        ("shop-1", [("db0", 3306), ("db0b", 3306)]),
        ("shop-2", [("db1", 3306)]),
        ("shop-10", [("db2", 3306)]),
    ]
    assert [each.start for each in settings.shards] == [
        "mysql-bin.000007:4711",
        "2023-11-14T22:13:20.500000+00:00",
        None,
    ]
    assert [each.start_by for each in settings.shards] == ["time", "auto", "auto"]
    assert values(conf)["preset"] == "group"
    assert len({str(each.password_file) for each in settings.shards}) == 1


def test_a_group_s_sources_do_not_count_with_another_xml(conf):
    conf.server()
    conf.instance("shop", master1__address="db0:3306")
    assert [shard["name"] for shard in values(conf)["shards"]] == ["shop"]
    assert said(conf, "canal.instance.master1.address") == [
        (Kind.NOTE, "it counts with group-instance.xml only, not classpath:spring/file-instance.xml")
    ]


@pytest.mark.parametrize(
    ("entries", "start"),
    [
        ({"journal__name": "b.000003", "position": "120"}, "b.000003:120"),
        ({"journal__name": "b.000003", "position": "120", "timestamp": "1700000000000"}, "b.000003:120"),
        ({"journal__name": "b.000003"}, "b.000003:4"),
        ({"journal__name": "b.000003", "position": "0"}, "b.000003:4"),
        ({"journal__name": "b.000003", "timestamp": "1700000000000"}, "2023-11-14T22:13:20+00:00"),
        ({"timestamp": "1700000000000"}, "2023-11-14T22:13:20+00:00"),
        ({"gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"}, None),
        ({"position": "120"}, None),
    ],
)
def test_a_start_is_what_canal_would_have_begun_at(conf, entries, start):
    conf.instance(**{f"master__{key}": value for key, value in entries.items()})
    assert values(conf)["shards"][0].get("start") == start
    assert load(conf).shards[0].start == start


def test_with_gtidon_the_gtids_count(conf):
    gtids = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"
    conf.instance(gtidon="true", master__gtid=gtids, master__journal__name="b.000003", master__position="120")
    shard = load(conf).shards[0]
    assert (shard.start, shard.start_by) == (gtids, "gtid")
    assert said(conf, "canal.instance.master.position") == [
        (Kind.NOTE, f"not used, as in canal: the start is {gtids}")
    ]


def test_filters_of_tables_columns_and_kinds(conf):
    conf.server(instance__filter__query__ddl="true", instance__filter__dml__delete="true")
    conf.instance(
        filter__regex=r"shop\\..*,test\\.t_\\d{1,2}",
        filter__black__regex=r"shop\\.tmp_.*",
        filter__field="shop.orders:id/Note,test.t_1:id",
        filter__black__field="shop.people:mail,shop.orders:price",
    )
    kinds = ["insert", "update"]
    assert values(conf)["filter"] == {
        "white": r"shop\..*,test\.t_\d{1,2}",
        "black": r"shop\.tmp_.*",
        "tables": [
            {"match": r"shop\.orders", "white_columns": ["id", "note"], "keep": kinds},
            {"match": r"test\.t_1", "white_columns": ["id"], "keep": kinds},
            {"match": r"shop\.people", "black_columns": ["mail"], "keep": kinds},
            {"match": ".*", "keep": kinds},
        ],
    }
    assert load(conf).filter.tables[3].match == ".*"


def test_differing_instances_of_a_group_lose_nothing_and_are_reported(conf):
    conf.instance("a", master__address="a:1", filter__regex=r"a\\..*", filter__black__regex=r"x\\.y,a\\.b")
    conf.instance("b", master__address="b:1", filter__regex=r"b\\..*", filter__black__regex=r"x\\.y")
    conf.instance(
        "c",
        master__address="c:1",
        filter__regex=r"b\\..*",
        filter__rows="true",
        filter__black__regex=r"x\\.y",
    )
    table_filter = values(conf, destination="shop")["filter"]
    assert table_filter == {"white": r"a\..*,b\..*", "black": r"x\.y", "tables": [AS_CANAL]}
    acts = import_(conf, destination="shop").report.left_to_do
    assert {
        (answer.entry.key.removeprefix("canal.instance.filter."), answer.entry.file.split("/")[-2])
        for answer in acts
    } == {
        ("regex", "a"),
        ("regex", "b"),
        ("regex", "c"),
        ("black.regex", "a"),
        ("rows", "c"),
    }


def test_one_instance_that_keeps_every_table_keeps_them_for_all(conf):
    conf.instance("a", master__address="a:1")
    conf.instance("b", master__address="b:1", filter__regex=r"b\\..*")
    assert "white" not in values(conf, destination="shop")["filter"]
    assert [kind for kind, _ in said(conf, "canal.instance.filter.regex", destination="shop")] == [
        Kind.SETTING,
        Kind.SETTING,
        Kind.ACT,
    ]


def test_sizes_modes_and_failover(conf):
    conf.server(
        ip="127.0.0.1",
        instance__memory__buffer__size="1024",
        instance__memory__buffer__memunit="2048",
        instance__memory__batch__mode="ITEMSIZE",
        instance__get__ddl__isolation="true",
        instance__detecting__enable="true",
        instance__detecting__heartbeatHaEnable="true",
        instance__detecting__interval__time="7",
        instance__fallbackIntervalInSeconds="90",
        instance__network__soTimeout="20",
        auto__reset__latest__pos__mode="true",
    )
    conf.instance(standby__address="b:3306")
    loaded = load(conf)
    assert (loaded.store.size, loaded.store.memunit_bytes, loaded.store.mode) == (1024, 2048, "items")
    assert loaded.batch.ddl_isolation
    detecting = loaded.reader.detecting
    # canal leaves a server after one failure more than its threshold says.
    assert (detecting.sql, detecting.interval_s, detecting.threshold) == ("SELECT 1", 7.0, 4)
    assert (loaded.reader.fallback_s, loaded.reader.connect_timeout_s) == (90.0, 20.0)
    assert loaded.merge.purged == "latest"
    assert loaded.shards[0].start_by == "time"
    assert import_(conf).report.left_to_do == []


def test_a_standby_that_canal_did_not_switch_to_is_said(conf):
    conf.instance(standby__address="b:3306")
    kinds = [kind for kind, _ in said(conf, "canal.instance.standby.address")]
    assert kinds == [Kind.SETTING, Kind.ACT]


@pytest.mark.parametrize(
    ("xml", "servers", "preset", "kinds"),
    [
        ("memory", "", "memory", ("local", "memory")),
        ("file", "", "file", ("local", "file")),
        ("default", "", "default", ("zookeeper", "zookeeper")),
        ("group", "", "group", ("embedded", "zookeeper")),
        ("file", "zk:2181", "default", ("zookeeper", "zookeeper")),
        ("memory", "zk:2181", "default", ("zookeeper", "zookeeper")),
    ],
)
def test_a_preset_is_canal_s_file_or_the_one_with_zookeeper(conf, xml, servers, preset, kinds):
    conf.server(zkServers=servers, instance__global__spring__xml=f"classpath:spring/{xml}-instance.xml")
    conf.instance()
    loaded = load(conf)
    assert values(conf)["preset"] == preset
    assert (loaded.coordination.kind, loaded.cursor.kind) == kinds


def test_zookeepers_root_joins_the_prefix_and_other_clusters_are_named(conf):
    conf.server(zkServers="zk1:2181,[::1]:2182/app/;zk9:2181", zookeeper__flush__period="250")
    conf.instance()
    loaded = load(conf)
    assert (loaded.coordination.hosts, loaded.coordination.prefix) == (
        "zk1:2181,[::1]:2182",
        "/app/otter/canal",
    )
    assert loaded.cursor.flush_s == 0.25
    assert any("other ZooKeeper clusters" in text for _, text in said(conf, "canal.zkServers"))


@pytest.mark.parametrize(
    ("mode", "ssl"),
    [
        ("DISABLED", None),
        ("preferred", {"verify": False}),
        ("REQUIRED", {"verify": False}),
        ("VERIFY_CA", {"ca": "example-ca.pem"}),
        ("VERIFY_IDENTITY", {"ca": "example-ca.pem"}),
    ],
)
def test_modes_of_tls(conf, mode, ssl):
    conf.instance(master__sslMode=mode, master__trustCertificateKeyStoreUrl="file:/etc/canal/trust.jks")
    ssl_settings = values(conf)["shards"][0].get("ssl")
    if ssl and "ca" in ssl:
        ssl = {"ca": str(conf.secrets / ssl["ca"])}
    assert ssl_settings == ssl
    to_do = any(
        "keytool" in text for _, text in said(conf, "canal.instance.master.trustCertificateKeyStoreUrl")
    )
    assert to_do == bool(ssl and "ca" in ssl)


def test_a_client_s_certificate_is_two_files(conf):
    conf.instance(
        master__sslMode="REQUIRED", master__clientCertificateKeyStoreUrl="file:/etc/canal/client.jks"
    )
    ssl = load(conf).shards[0].ssl
    assert (ssl.cert, ssl.key) == (conf.secrets / "example-cert.pem", conf.secrets / "example-key.pem")


def test_a_password_from_the_environment_stays_there(conf, monkeypatch):
    monkeypatch.setenv("CANAL_PASSWORD_OF_SHOP", "s3cret")
    conf.instance(dbPassword="${CANAL_PASSWORD_OF_SHOP}")
    assert values(conf)["shards"][0]["password_env"] == "CANAL_PASSWORD_OF_SHOP"
    assert load(conf).shards[0].password.get_secret_value() == "s3cret"
    assert not conf.secrets.exists()


def test_an_empty_password_needs_no_file(conf):
    conf.instance(dbPassword="")
    assert "password_file" not in values(conf)["shards"][0]


def test_no_secret_is_in_the_file_or_in_the_report(conf):
    secrets = {
        "instance.dbPassword": "s3cret-1",
        "instance.tsdb.dbPassword": "s3cret-2",
        "aliyun.secretKey": "s3cret-3",
    }
    conf.server(
        passwd="s3cret-4",
        admin__passwd="s3cret-5",
        aliyun__secretKey=secrets["aliyun.secretKey"],
        instance__tsdb__url="jdbc:mysql://h/t?user=u&password=s3cret-6",
    )
    conf.instance(
        dbPassword=secrets["instance.dbPassword"],
        tsdb__dbPassword="s3cret-2",
        rds__accesskey="s3cret-7",
        dbPwd="s3cret-9",
    )
    conf.files.append(conf.write("canal.properties", {"rabbitmq.password": "s3cret-8"}))
    conf.files = conf.files[:2]
    result = import_(conf)
    shown = "\n".join([text_of(result), *map(str, result.answers)])
    assert "s3cret" not in shown
    assert [file.read_text() for file in conf.secrets.glob("*")] == []
    result.secrets.write()
    assert [file.read_text() for file in conf.secrets.glob("*")] == ["s3cret-1\n"]


def test_a_secret_s_file_is_not_overwritten(conf):
    conf.instance()
    first = import_(conf)
    first.secrets.write()
    again = import_(conf)
    assert again.secrets.new == []
    again.secrets.write()
    (conf.secrets / "example.password").write_text("other")
    with pytest.raises(
        ConfigError, match=r"example\.password: the file should be missing or hold the imported secret"
    ):
        import_(conf)
    (conf.secrets / "example.password").unlink()
    late = import_(conf)
    (conf.secrets / "example.password").write_text("meanwhile")
    with pytest.raises(ConfigError, match="the file should be new, but cannot be written"):
        late.secrets.write()
    assert (conf.secrets / "example.password").read_text() == "meanwhile"


DIGEST = "E3619321C1A937C46A0D8BD1DAC39F93B27D4458"


def test_canal_s_listener_its_user_and_the_digest_of_its_password(conf):
    conf.server(port="21111", user="app", passwd=DIGEST.lower(), register__ip="canal-1.example.com")
    conf.instance()
    listener = load(conf).canal
    assert (listener.host, listener.port, listener.advertise) == ("0.0.0.0", 21111, "canal-1.example.com")
    assert (listener.user, listener.password.get_secret_value()) == ("app", f"*{DIGEST}")
    assert [kind for kind, _ in said(conf, "canal.passwd")] == [Kind.SETTING]
    assert DIGEST not in "".join(map(str, import_(conf).answers)).upper()


def test_a_listener_without_access_control_stays_on_this_machine(conf):
    conf.server(ip="10.0.0.7", user="app")
    conf.instance()
    assert values(conf)["canal"] == {}
    assert [kind for kind, _ in said(conf, "canal.ip")] == [Kind.ACT]
    assert [kind for kind, _ in said(conf, "canal.user")] == [Kind.NOTE]


def test_a_malformed_digest_is_refused(conf):
    conf.server(user="app", passwd="secret")
    conf.instance()
    assert "`canal.passwd` should be 40 hexadecimal digits" in refusal(conf)


@pytest.mark.parametrize("changes", [{"serverMode": "rocketMQ"}, {"withoutNetty": "true"}])
def test_a_canal_without_a_listener_gets_none(conf, changes):
    conf.server(**changes)
    conf.instance()
    assert "canal" not in values(conf)
    assert import_(conf).destinations[0].relay is None


def test_slave_ids_are_not_taken_over(conf):
    conf.instance(mysql__slaveId="1234")
    assert "server_id" not in values(conf)["shards"][0]
    ((kind, text),) = said(conf, "canal.instance.mysql.slaveId")
    assert kind is Kind.NOTE
    assert text.startswith("not taken over")


def test_replaced_entries_placeholders_and_unknown_keys_are_said(conf):
    conf.server(instance__dbUsername="other", database__host="db7", instance__filter__regx="x")
    conf.instance(master__address="${canal.database.host}:3306")
    assert values(conf)["shards"][0]["host"] == "db7"
    username, own = said(conf, "canal.instance.dbUsername")
    assert username[1].startswith("replaced by ")
    assert own == (Kind.SETTING, "`shards[].user`")
    assert said(conf, "canal.database.host") == [(Kind.NOTE, "the value of a placeholder")]
    assert said(conf, "canal.instance.filter.regx") == [
        (Kind.ACT, "canal has no such key (nearest: canal.instance.filter.regex); it is left out")
    ]
    line = next(line for line in map(str, import_(conf).answers) if "regx" in line)
    assert line.startswith(f"do    {conf.files[0]}, line {len(conf.files[0].read_text().splitlines())}: ")


def test_what_is_left_to_do_is_a_comment_of_the_file(conf):
    conf.instance(multi__stream__on="true")
    text = text_of(import_(conf))
    comment = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    assert "canal.instance.multi.stream.on" in comment
    assert "the streams of PolarDB-X are not read" in comment
    assert "line 10" in comment
    assert max(map(len, text.splitlines())) <= 200
    assert yaml.safe_load(text)["destination"] == "example"


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x1b", "\x1c", "\ufeff"])
def test_an_entry_of_others_opens_nothing_in_the_file_that_is_written(conf, end):
    """Some characters end a line of YAML, and with it a comment."""
    conf.instance(**{f"multi__stream__on{end}gateway\\:\\ 5{end}\\#": "true"})
    text = text_of(import_(conf))
    assert "gateway: 5" in text
    assert "gateway" not in yaml.safe_load(text)


NO_START = "should say where a binlog begins, but does not"


@pytest.mark.parametrize(
    ("changes", "line", "key", "sentence"),
    [
        ({"master__address": "db:x"}, 5, "master.address", "should be `host:port`, but is 'db:x'."),
        ({"master__position": "x"}, 7, "master.position", "should be a whole number from 0, but is 'x'."),
        (
            {"master__journal__name": "binlog", "master__position": "4"},
            6,
            "master.journal.name",
            f"{NO_START} ('binlog:4' is not a start).",
        ),
        (
            {"master__timestamp": "99999999999999"},
            8,
            "master.timestamp",
            f"{NO_START} (The start 5138-11-16T09:46:39.999000+00:00 is in the future).",
        ),
        (
            {"gtidon": "true", "master__gtid": "nonsense"},
            9,
            "master.gtid",
            f"{NO_START} ('nonsense' is not a start).",
        ),
        ({"gtidon": "perhaps"}, 1, "gtidon", "should be true or false, but is 'perhaps'."),
        (
            {"filter__regex": "(?!mysql).*"},
            17,
            "filter.regex",
            (
                "should hold expressions that RE2 matches; what a lookahead leaves out goes into"
                " `canal.instance.filter.black.regex`, but has '(?!mysql).*' (negative lookahead, (?!...), is"
                " not supported)."
            ),
        ),
        (
            {"filter__field": "orders:id"},
            21,
            "filter.field",
            "should be `schema.table:column/column`, several separated by commas, but has 'orders:id'.",
        ),
        (
            {"master__sslMode": "MAYBE"},
            11,
            "master.sslMode",
            "should be one of DISABLED, PREFERRED, REQUIRED, VERIFY_CA, VERIFY_IDENTITY, but is 'MAYBE'.",
        ),
        (
            {"enableDruid": "true"},
            14,
            "dbPassword",
            (
                "should be encrypted for `canal.instance.pwdPublicKey`, or `canal.instance.enableDruid` be"
                " false, but there is no `canal.instance.pwdPublicKey`."
            ),
        ),
        (
            {"memory__buffer__size": "1000"},
            21,
            "memory.buffer.size",
            "should be a power of two, as in canal, but is 1000.",
        ),
        (
            {"memory__batch__mode": "ALL"},
            21,
            "memory.batch.mode",
            "should be MEMSIZE or ITEMSIZE, but is 'ALL'.",
        ),
        (
            {"fallbackIntervalInSeconds": "86401"},
            21,
            "fallbackIntervalInSeconds",
            "should be at most 86400 s, but is 86401 s.",
        ),
        (
            {"global__spring__xml": "classpath:mine.xml"},
            21,
            "global.spring.xml",
            (
                "should be one of memory-instance.xml, file-instance.xml, default-instance.xml,"
                " group-instance.xml; what another one says has to be set by hand, but is"
                " 'classpath:mine.xml'."
            ),
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_file_and_line(conf, changes, line, key, sentence):
    conf.instance(**changes)
    assert refusal(conf) == f"example/instance.properties, line {line}: `canal.instance.{key}` {sentence}"


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (
            "master.address",
            "should be given, or `canal.instance.master1.address` and the following ones, but is",
        ),
        ("dbUsername", "should be given, in it or in canal.properties, but is"),
    ],
)
def test_what_is_missing_is_named_with_its_file(conf, key, sentence):
    conf.instance(**{key.replace(".", "__"): ""})
    assert refusal(conf).startswith(f"example/instance.properties: `canal.instance.{key}` {sentence}")


def test_files_of_another_program_are_refused(conf):
    conf.server()
    assert (
        "`canal.instance.master.address` should be in a file, an instance.properties, but is in none"
        in refusal(conf)
    )
    conf.write("second.properties", {"a": "b"})
    conf.instance()
    assert refusal(conf) == (
        "second.properties: the file should be the only one without a source,"
        " but canal.properties has none either."
    )


def test_instances_with_one_name_or_none_are_refused(conf, tmp_path):
    conf.instance("a b")
    assert "in a folder that is named as the instance, as canal requires, but the folder's name is 'a b'" in (
        refusal(conf)
    )
    conf.files.clear()
    conf.instance("a")
    (tmp_path / "other" / "a").mkdir(parents=True)
    conf.write("other/a/instance.properties", {"canal.instance.master.address": "h:1"})
    assert "should be in a folder of another name, but a/instance.properties is an instance a too" in refusal(
        conf, destination="shop"
    )


def test_two_shards_of_one_source_are_refused_as_everywhere(conf):
    conf.instance("a")
    conf.instance("b")
    assert "should be a different source, but shards[0] reads 127.0.0.1:3306 too" in refusal(
        conf, destination="shop"
    )


def test_times_are_utc_with_milliseconds():
    from canal_group.programs.migration.canal_files.cursor import time_text

    assert dt.datetime.fromisoformat(time_text(1_700_000_000_123)).timestamp() == 1_700_000_000.123
