"""Statements: what reading one costs, in nanoseconds of processor time and bytes of memory a byte of it.

By the form of a statement:

- `lexer_ns`: what any statement costs: what it is, and which tables it names;
- `grammar_ns`: what one costs in addition that concerns a kept table: what it does to a catalog;
- `memory`: the most memory that both take at once, as a multiple of the statement's length.

`lexer_ns_max`, `grammar_ns_max` and `memory_max` are the largest of them; `exceeded` names those that are
more than CEILINGS allows.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

from canal_group.binlog.schema.catalog import Catalog
from canal_group.binlog.schema.named import named_in
from canal_group.binlog.schema.statement import ServerVersion, Statement
from canal_group.binlog.statements.statement_reader import read_control, read_statement

#: what no statement may exceed, also on a slow machine: ns a byte, and a multiple of its length
CEILINGS = {"lexer_ns_max": 1_000, "grammar_ns_max": 5_000, "memory_max": 16}
_BYTES = 1_000_000
_ROUNDS = 3
_UTF8MB4 = 45
_ACCENTED = "a\u0301"
_SERVER = ServerVersion(mariadb=True, major=10, minor=11, patch=6)


def _listed(form: str, size: int) -> str:
    """Return numbered items between commas, of some size together."""
    return ",".join(form.format(number) for number in range(size // (len(form) + 4)))


_FORMS: Mapping[str, Callable[[int], str]] = {
    "columns": lambda size: f"CREATE TABLE t ({_listed('c{} INT', size)})",
    "values of an ENUM": lambda size: f"CREATE TABLE t (a ENUM({_listed(chr(39) + 'v{}' + chr(39), size)}))",
    "nested parentheses": lambda size: (
        f"CREATE TABLE t (a INT CHECK ({'(' * (size // 2)}{')' * (size // 2)}))"
    ),
    "a default of many tokens": lambda size: f"CREATE TABLE t (a INT DEFAULT 1{'+1' * (size // 2)})",
    "options": lambda size: f"CREATE TABLE t (a INT) {'x ' * (size // 2)}",
    "quotes": lambda size: "CREATE TABLE t (a INT COMMENT '" + "''" * (size // 2) + "')",
    "executable comments": lambda size: "CREATE TABLE t (a INT) " + "/*! x */" * (size // 8),
    "nested comments": lambda size: f"/*!99999 {'/* */' * (size // 5)} */ CREATE TABLE t (a INT)",
    "clauses of ALTER": lambda size: f"ALTER TABLE t {_listed('ADD c{} INT', size)}",
    "new names": lambda size: f"ALTER TABLE t {_listed('RENAME TO t{}', size)}",
    "dropped tables": lambda size: f"DROP TABLE IF EXISTS {_listed('`app`.`t{}`', size)}",
    "renamed tables": lambda size: f"RENAME TABLE {_listed('`a{0}` TO `b{0}`', size)}",
    "settings": lambda size: f"SET STATEMENT {'a=1,' * (size // 4)} b=1 FOR DROP TABLE t",
    "a routine": lambda size: f"CREATE PROCEDURE p() BEGIN {'a;' * (size // 2)} END",
    "rows": lambda size: f"INSERT INTO t VALUES {_listed('({})', size)}",
    "a savepoint": lambda size: f"SAVEPOINT `{_ACCENTED * (size // 3)}`",
}


def measure(size: float) -> dict[str, Any]:
    """Return the costs by form, and the largest."""
    costs = {form: _cost(make(int(_BYTES * size))) for form, make in _FORMS.items()}
    largest = {
        f"{name}_max": max(each[name] for each in costs.values())
        for name in ("lexer_ns", "grammar_ns", "memory")
    }
    exceeded = [name for name, ceiling in CEILINGS.items() if largest[name] > ceiling]
    return {**costs, **largest, "exceeded": exceeded}


def _cost(sql: str) -> dict[str, float]:
    statement, size = Statement(sql, "app", _SERVER), len(sql.encode())
    tracemalloc.start()
    _lex(statement)
    _apply(statement)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "lexer_ns": round(_took_s(_lex, statement) * 1e9 / size, 1),
        "grammar_ns": round(_took_s(_apply, statement) * 1e9 / size, 1),
        "memory": round(peak / size, 1),
    }


def _lex(statement: Statement) -> None:
    if read_control(statement.sql) is None:
        read_statement(statement)
        named_in(statement)


def _apply(statement: Statement) -> None:
    Catalog(_UTF8MB4).apply(statement)


def _took_s(call: Callable[[Statement], None], statement: Statement) -> float:
    def once() -> float:
        begun = time.process_time()
        call(statement)
        return time.process_time() - begun

    return statistics.median(once() for _ in range(_ROUNDS))
