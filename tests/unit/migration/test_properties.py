"""canal's files are read as Java reads them, and every entry knows its line."""

import pytest

from canal_group.merge.errors import ConfigError
from canal_group.programs.migration.canal_files.properties import FILE_BYTES_MAX, read_properties


def read(tmp_path, text):
    file = tmp_path / "canal.properties"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_properties(file)


def values(tmp_path, text):
    return {key: entry.raw for key, entry in read(tmp_path, text).entries.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a  =  b  ", {"a": "b"}),
        ("a: b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a=", {"a": ""}),
        ("a", {"a": ""}),
        ("a=b=c:d", {"a": "b=c:d"}),
        (r"a\=b\:c=d", {"a=b:c": "d"}),
        (r"canal.instance.filter.regex=.*\\..*", {"canal.instance.filter.regex": r".*\..*"}),
        (r"a=.*\..*", {"a": ".*..*"}),
        (r"a=\u4e2d\u6587", {"a": "中文"}),
        (r"a=\t\n", {"a": ""}),
        ("a=b\\\n   c\\\n\td", {"a": "bcd"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("#a=b\n!c=d\n  # e=f\n\ng=h", {"g": "h"}),
        ("# a\\\nb=c", {"b": "c"}),
        ("a=b # c", {"a": "b # c"}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("\ufeffa=b", {"a": "b"}),
        ("a=密码", {"a": "密码"}),
        ("a=é".encode("latin-1"), {"a": "é"}),
        ("", {}),
    ],
)
def test_entries_are_java_s(tmp_path, text, expected):
    assert values(tmp_path, text) == expected


def test_an_entry_knows_its_first_line_and_the_last_of_a_key_counts(tmp_path):
    properties = read(tmp_path, "# one\n\na=1\nb=2\\\n  3\n\r\nc=4\na=5\n")
    lines = {key: entry.line for key, entry in properties.entries.items()}
    assert lines == {"a": 8, "b": 4, "c": 7}
    assert [(entry.key, entry.raw, entry.line) for entry in properties.replaced] == [("a", "1", 3)]
    assert properties.entries["c"].location == f"{tmp_path / 'canal.properties'}, line 7"


def test_a_malformed_escape_is_named_with_its_line(tmp_path):
    with pytest.raises(ConfigError) as error:
        read(tmp_path, "a=1\n\nb=2\\\n  \\u12x4\n")
    assert error.value.message == (
        rf"{tmp_path}/canal.properties, line 4: the file should have four hexadecimal digits after \u,"
        r" but has \u12x4."
    )


def test_a_file_that_is_missing_or_too_large_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="should be readable, but is not"):
        read_properties(tmp_path / "none")
    with pytest.raises(ConfigError, match=f"should have at most {FILE_BYTES_MAX} bytes, but is longer"):
        read(tmp_path, b"#" * (FILE_BYTES_MAX + 1))
