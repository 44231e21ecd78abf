"""Reports words that this project does not use, with the file and line of each: the rules are in words.toml.

Exit status 1: a word was found, or an exception is not needed any more.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[1]
RULES = Path(__file__).with_suffix(".toml")

#: what a rule can look at
TEST_NAMES, IDENTIFIERS = "test names", "identifiers"
DOCSTRINGS, COMMENTS, DOCS, MESSAGES = "docstrings", "comments", "docs", "messages"
SCOPES = frozenset({TEST_NAMES, IDENTIFIERS, DOCSTRINGS, COMMENTS, DOCS, MESSAGES})
#: files of which only comments are read, each to the end of its line
COMMENTED = frozenset({".pxd", ".pyx", ".sh", ".toml", ".yaml"})
PYTHON = frozenset({".py", ".pyi"})

_COMMENT = re.compile(r"(?:^|\s)#[:!]?\s(.*)")
_FENCE = re.compile(r"\s*(```|~~~)")
#: between the words of an identifier: underscores, and before a capital
_BETWEEN = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Text:
    """A text that rules are applied to."""

    scope: str
    line: int
    #: as it is in the file
    written: str
    #: what patterns are searched in: the words of an identifier in lower case, separated by spaces
    searched: str


@dataclass(frozen=True)
class Found:
    """A word that a rule forbids."""

    file: str
    line: int
    #: the identifier, or the words that the pattern matches
    text: str
    write: str
    rule: str

    def __str__(self) -> str:
        """Return it in one line, as compilers do."""
        return f"{self.file}:{self.line}: {self.rule}: `{self.text}`: {self.write}"


@dataclass(frozen=True)
class Allowed:
    """An exception of a rule."""

    #: a glob of paths
    file: str
    #: the identifier, or what the pattern matches; empty: all of them in these files
    text: str
    reason: str

    def covers(self, found: Found) -> bool:
        """Return whether this exception is for that word."""
        return PurePosixPath(found.file).match(self.file) and self.text in ("", found.text)


@dataclass(frozen=True)
class Rule:
    """Words that are not used in some scopes."""

    name: str
    pattern: re.Pattern[str]
    scopes: frozenset[str]
    write: str
    allowed: tuple[Allowed, ...] = ()

    @classmethod
    def of(cls, members: dict[str, Any]) -> Self:
        """Return the rule of an entry of words.toml.

        Raises:
            ValueError: it has an unknown scope, or no replacement, or an exception has no reason.
        """
        name, scopes = members.pop("name"), frozenset(members.pop("scopes"))
        # Words that a text has on two lines are found too.
        pattern = re.compile(members.pop("pattern").replace(" ", r"\s+"), re.IGNORECASE)
        write = members.pop("write").strip()
        allowed = tuple(
            Allowed(each.pop("file", "*"), each.pop("text", ""), each.pop("reason", "").strip())
            for each in members.get("allow", ())
        )
        unknown = {*members, *(key for each in members.get("allow", ()) for key in each)} - {"allow"}
        if unknown or not scopes or not scopes <= SCOPES or not write:
            raise ValueError(f"words.toml: {name} needs scopes of {sorted(SCOPES)} and `write`; {unknown=}")
        if not all(each.reason for each in allowed):
            raise ValueError(f"words.toml: an exception of {name} has no reason")
        return cls(name, pattern, scopes, write, allowed)

    def look(self, file: str, text: Text) -> Iterator[Found]:
        """Yield what this rule finds in a text, its exceptions included."""
        if text.scope not in self.scopes:
            return
        for match in self.pattern.finditer(text.searched):
            named = text.scope in (TEST_NAMES, IDENTIFIERS)
            line = text.line + text.searched.count("\n", 0, match.start())
            shown = text.written if named else " ".join(match[0].split())
            yield Found(file, line, shown, self.write, self.name)


@dataclass
class Rules:
    """The rules, and which exceptions were needed."""

    rules: tuple[Rule, ...]
    #: globs of paths that are not looked at
    excluded: tuple[str, ...] = ()
    needed: set[tuple[str, Allowed]] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return the rules of a file."""
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        rules = tuple(Rule.of(members) for members in found["rule"])
        if len({rule.name for rule in rules}) < len(rules):
            raise ValueError("words.toml: two rules have the same name")
        return cls(rules, tuple(found.get("exclude", ())))

    def of_file(self, root: Path, path: Path) -> Iterator[Found]:
        """Yield the words in a file that no exception allows."""
        file = path.relative_to(root).as_posix()
        for text in texts_of(path, file):
            for rule in self.rules:
                for found in rule.look(file, text):
                    allowed = [each for each in rule.allowed if each.covers(found)]
                    self.needed.update((rule.name, each) for each in allowed)
                    if not allowed:
                        yield found

    def unneeded(self) -> Iterator[str]:
        """Yield the exceptions that were not needed."""
        for rule in self.rules:
            for each in rule.allowed:
                if (rule.name, each) not in self.needed:
                    yield f"words.toml: {rule.name}: the exception {each.file} {each.text} is not needed"


def texts_of(path: Path, file: str) -> Iterator[Text]:
    """Yield the texts of a file; `file` is its path in the tree."""
    if path.suffix in PYTHON:
        yield from _of_python(path.read_text(encoding="utf-8"), is_test=file.startswith("tests/"))
    elif path.suffix == ".md":
        yield from _of_markdown(path.read_text(encoding="utf-8"))
    elif path.suffix in COMMENTED or path.name == "Makefile":
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := _COMMENT.search(line):
                yield Text(COMMENTS, number, match[1], match[1])


def _of_markdown(source: str) -> Iterator[Text]:
    """Yield the paragraphs outside of code blocks, so that a pattern can match across lines."""
    fenced, begin, lines = False, 1, list[str]()
    for number, line in enumerate([*source.splitlines(), ""], 1):
        fence = _FENCE.match(line)
        if fence or fenced or not line.strip():
            if lines:
                yield Text(DOCS, begin, "\n".join(lines), "\n".join(lines))
            begin, lines = number + 1, []
            fenced ^= bool(fence)
        else:
            lines.append(line)


def _of_python(source: str, *, is_test: bool) -> Iterator[Text]:
    tree = ast.parse(source)
    docstrings = {id(each) for each in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in docstrings:
                yield Text(DOCSTRINGS, node.lineno, node.value, node.value)
            elif " " in node.value:
                # Its line is that where the string begins: a line break in it may be an escape.
                yield Text(MESSAGES, node.lineno, node.value, node.value.replace("\n", " "))
        for name, line in _named_by(node):
            words = " ".join(_BETWEEN.split(name)).strip().lower()
            is_name = is_test and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield Text(IDENTIFIERS, line, name, words)
            if is_name and name.startswith("test_"):
                yield Text(TEST_NAMES, line, name, words)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("#:! ")
            yield Text(COMMENTS, token.start[0], text, text)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def _named_by(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names that a node gives: of functions, classes, parameters, variables and attributes."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name, node.lineno
        case ast.arg():
            yield node.arg, node.lineno
        case ast.Name(ctx=ast.Store()):
            yield node.id, node.lineno
        case ast.Attribute(ctx=ast.Store()):
            yield node.attr, node.lineno


def files_in(root: Path, excluded: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files of a tree, without hidden and built ones."""
    for path in sorted(root.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir() and path.name not in ("build", "dist", "__pycache__"):
            yield from (each for each in files_in(path, excluded) if not _any(each, excluded))
        elif path.is_file() and not _any(path, excluded):
            yield path


def _any(path: Path, globs: tuple[str, ...]) -> bool:
    return any(path.match(each) for each in globs)


def main(arguments: list[str] | None = None) -> int:
    """Look, and print what is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="files to look at; default: all")
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--rules", type=Path, default=RULES)
    parser.add_argument("--rule", help="one rule alone, by its name")
    said = parser.parse_args(arguments)
    rules = Rules.read(said.rules)
    if said.rule:
        rules.rules = tuple(rule for rule in rules.rules if rule.name == said.rule)
    root = said.root.resolve()
    paths = [path.resolve() for path in said.paths] or files_in(root, rules.excluded)
    found = [str(each) for path in paths for each in rules.of_file(root, path)]
    if not said.paths:
        found += rules.unneeded()
    print(*found, sep="\n", end="\n" if found else "")
    print(f"words: {len(found)} found by {len(rules.rules)} rules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
