"""Statements of test suites: files that hold SQL, cut into what they send to a server.

A literal or a YAML text of a program's source holds statements if its first word defines something.
Of mysqltest's language only what gives statements their text is followed: comments, DELIMITER and LET. Loops
and conditions are not; what is in them is read once. A statement that needs a variable which nothing here has
set is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

#: commands that are not statements though they look like some; a block's braces stand between statements
_COMMAND = re.compile(
    r"\{|\}|(?:append_file|assert|cat_file|change_user|character_set|chmod|connect|connection|copy_file|dec|die"
    r"|diff_files|dirty_close|disable_\w+|disconnect|echo|enable_\w+|end|error|exec|exit|file_exists|force-\w+|if"
    r"|inc|list_files\w*|lowercase_result|mkdir|move_file|output|perl|ping|query|query_get_value|query_horizontal"
    r"|query_vertical|real_sleep|reap|remove_file\w*|replace_\w+|require|reset_connection|result_format|rmdir"
    r"|save_master_pos|send|send_eval|send_quit|sync_\w+|shutdown_server|skip|sleep|sorted_result|source"
    r"|start_timer|sync_with_master|system|vertical_results|horizontal_results|wait_for_slave_to_stop|while"
    r"|write_file)\b",
    re.IGNORECASE,
)
_DELIMITER = re.compile(r"(?:--)?\s*delimiter\s+(\S+)", re.IGNORECASE)
_LET = re.compile(r"(?:--)?\s*let\s+\$(\w+)\s*=\s*(.*)", re.IGNORECASE | re.DOTALL)
_EVAL = re.compile(r"eval\s+", re.IGNORECASE)
_VARIABLE = re.compile(r"\$(\w+)")
#: what suites set in files of their own, which are not read
_USUAL = {
    "engine": "InnoDB",
    "engine_type": "InnoDB",
    "sys_datatype_expl": "timestamp(6) generated always as",
}
#: the kinds of files that hold statements
SUFFIXES = (".test", ".sql", ".go", ".java", ".yml", ".yaml")
_DEFINES = re.compile(r"\s*(?:/\*M?!\d*\s*)?(?:CREATE|ALTER|DROP|RENAME|TRUNCATE|USE|SET)\s", re.IGNORECASE)
#: adjacent literals, of Go or Java, which the source joins
_LITERAL = r'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|`[^`]*`'
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_LITERALS = re.compile(rf"{_COMMENT}|(?P<joined>(?:{_LITERAL})(?:\s*\+\s*(?:{_LITERAL}))*)", re.DOTALL)
_PART = re.compile(_LITERAL, re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def statements(file: Path) -> Iterator[bytes]:
    """Yield the statements of a file as they are sent, in its order and without their delimiters."""
    # Bytes of any charset: as characters of Latin 1 they go in and out unchanged.
    text = file.read_text("latin-1")
    if file.suffix in (".yml", ".yaml"):
        texts = _yaml_texts(text)
    elif file.suffix in (".go", ".java"):
        texts = _literals(text)
    else:
        yield from _sent(text)
        return
    for each in texts:
        if _DEFINES.match(each):
            yield from _sent(each)


def _literals(source: str) -> Iterator[str]:
    """Yield the values of a program's literals."""
    for found in _LITERALS.finditer(source):
        yield "".join(map(_value, _PART.findall(found["joined"] or "")))


def _value(literal: str) -> str:
    if literal[0] == "`":
        return literal[1:-1]
    quotes = 3 if literal.startswith('"""') else 1
    return re.sub(
        r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), literal[quotes:-quotes], flags=re.DOTALL
    )


def _yaml_texts(source: str) -> Iterator[str]:
    """Yield the texts of YAML; a file that is not valid YAML has none."""
    try:
        tokens = [token.value for token in yaml.scan(source) if isinstance(token, yaml.ScalarToken)]
    except yaml.YAMLError:
        return
    yield from tokens


def _sent(source: str) -> Iterator[bytes]:
    """Yield the statements of SQL as they are sent."""
    variables = dict(_USUAL)
    for text in _cut(source):
        let = _LET.match(text)
        if let is not None:
            value = let[2].strip()
            if not value.startswith("`"):  # the answer to a query
                variables[let[1]] = value
            continue
        sql = _EVAL.sub("", text, count=1) if _EVAL.match(text) else text
        sql = _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), sql) if sql is not text else sql
        if not _COMMAND.match(sql) and (sql is text or not _VARIABLE.search(sql)):
            yield sql.encode("latin-1")


def _cut(text: str) -> Iterator[str]:
    """Yield the commands and statements of a file."""
    at, delimiter = 0, ";"
    while at < len(text):
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        line = text[at:line_end].strip()
        if not line or line.startswith(("#", "--")) or line[0] in "{}":
            change = _DELIMITER.match(line) if line.startswith("--") else None
            if change is not None:
                delimiter = change[1]
            elif _LET.match(line):
                yield line
            # A brace may have a statement after it.
            at = (
                at + len(text[at:line_end]) - len(text[at:line_end].lstrip()) + 1
                if line[:1] in ("{", "}")
                else line_end + 1
            )
            continue
        if re.match(r"(?:if|while)\b", line, re.IGNORECASE):
            at = line_end + 1
            continue
        end = _end(text, at, delimiter)
        found = text[at:end].strip()
        change = _DELIMITER.match(found)
        if change is not None:
            delimiter = change[1]
        elif found:
            yield found
        at = end + len(delimiter)


def _end(text: str, at: int, delimiter: str) -> int:
    """Return where a statement ends: at the next delimiter outside of quotes and of comments."""
    skipped = re.compile(
        r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`[^`]*`|/\*.*?\*/|\#[^\n]*|--(?=\s)[^\n]*|"
        rf"(?P<delimiter>{re.escape(delimiter)})",
        re.DOTALL,
    )
    for found in skipped.finditer(text, at):
        if found["delimiter"] is not None:
            return found.start()
    return len(text)
