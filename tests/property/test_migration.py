"""Whatever is in canal's files: every entry has an answer and the result loads, or one is refused."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from support.soak import cases
from unit.migration.canal_files import INSTANCE, SERVER, text_of
from unit.migration.canal_versions import OTHERS

from canal_group.conf.document import parse_document
from canal_group.conf.load import build_instance
from canal_group.merge.errors import ConfigError
from canal_group.programs.migration import keys
from canal_group.programs.migration.imported import imported
from canal_group.programs.migration.instance_text import instance_text

SOURCES = [
    f"canal.instance.{role}{number}.{key}"
    for role in ("master", "standby")
    for number in ("", "1", "2")
    for key in keys.SOURCE_KEYS
]
EVERY_KEY = sorted(
    {
        *(*keys.KEYS, *SOURCES, *OTHERS, "canal.instance.example.lazy", "kafka.sasl.mechanism", "rocketmq.x"),
        *("my.own", "canal.mq.properties.client.id", "canal.instance.dbPassword1", "canal.manager.jdbc.url"),
    }
)
#: what somebody may have set, whatever the key means by it
VALUES = st.sampled_from(
    [
        *("", "true", "false", "0", "1", "7", "1024", "1700000000000", "x", "${my.own}", "${none:3}"),
        *("db1:3306", "db2:3307", "mysql-bin.000007", "0-1-42", r"shop\\..*", "shop.t:a/b", "VERIFY_CA"),
        *("amqp\\://u\\:s3cr@mq/v", "[\\:\\:1]\\:5672", "mq1\\:9092,mq2\\:9092", "shop{1-3}", "shop"),
        *("ITEMSIZE", "classpath:spring/group-instance.xml", "zk1:2181,zk2", "kafka", "rabbitMQ", "0.0.0.0"),
    ]
)


@st.composite
def entries(draw, shipped):
    """Entries of a file: what canal ships, with some removed, and some set to anything."""
    kept = {key: value for key, value in shipped.items() if draw(st.integers(0, 9))}
    return kept | draw(st.dictionaries(st.sampled_from(EVERY_KEY), VALUES, max_size=4))


@settings(max_examples=cases(300))
@given(entries(SERVER), entries(INSTANCE))
def test_every_entry_has_an_answer_and_the_result_loads(server, instance):
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "canal.properties", Path(folder) / "example" / "instance.properties"
        files[1].parent.mkdir()
        for file, content in zip(files, (server, instance), strict=True):
            file.write_text(text_of(content))
        try:
            found = imported(files, destination=None, secrets=Path(folder) / "secrets")
        except ConfigError as error:
            refused = str(error)
            assert "s3cr" not in refused
            assert ".properties" in refused or "the imported settings" in refused
            assert "line " in refused or "is missing" in refused or "is not." in refused or "reads" in refused
            return
        assert not (Path(folder) / "secrets").exists()
        assert "s3cr" not in "".join(map(str, found.answers))
        answered = {(answer.entry.file, answer.entry.key) for answer in found.answers}
        assert answered == {
            (str(file), key)
            for file, content in zip(files, (server, instance), strict=True)
            for key in content
        }
        build_instance(
            parse_document(instance_text(found, found.destinations[0]), "found"), secrets=frozenset()
        )


def test_every_key_that_canal_ships_is_known():
    assert [key for key in {**SERVER, **INSTANCE} if keys.meaning(key) is None] == []


def test_every_meaning_is_a_phrase_for_the_report():
    for key in EVERY_KEY:
        said = keys.meaning(key)
        assert said is None or (said and not said.endswith(".") and said[0] in "`napseo"), key
