"""Definition statements as sqlglot parses them.

This is a module of its own, which `ddl` imports at the first definition: sqlglot takes as long to import as
the rest of the parser, and a shard may see no definition for months.
"""

from __future__ import annotations

import logging
from typing import Any, TypeAlias

import sqlglot
from sqlglot import exp

#: (op, schema, table), as in `ddl.Change`
TreeChange: TypeAlias = tuple[str, str, str]


def tree_changes(sql: str, schema: str) -> list[TreeChange] | None:
    """Return what a definition statement changes; None if sqlglot cannot parse it.

    Args:
        sql: the statement.
        schema: the schema it ran in, for tables named without one.
    """
    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # it warns of every statement that it does not model
    try:
        trees = [tree for tree in sqlglot.parse(sql, read="mysql") if tree is not None]
    except Exception:  # noqa: BLE001 - besides its own errors it raises ValueError and others on unknown SQL
        return None
    finally:
        logger.setLevel(level)
    if len(trees) != 1:
        return None
    return _of_tree(trees[0], schema)


def _of_tree(tree: Any, schema: str) -> list[TreeChange] | None:
    match tree:
        case exp.Command():
            return None
        case exp.Create() | exp.Drop():
            return _create_or_drop(tree, schema)
        case exp.Alter():
            if str(tree.args.get("kind")).upper() != "TABLE":
                return []
            return _alter(tree, schema)
        case exp.TruncateTable():
            return [_change("TRUNCATE", table, schema) for table in tree.expressions]
        case _:
            return []


def _create_or_drop(tree: exp.Create | exp.Drop, schema: str) -> list[TreeChange] | None:
    kind = str(tree.args.get("kind")).upper()
    creates = isinstance(tree, exp.Create)
    if tree.args.get("temporary") or tree.find(exp.TemporaryProperty):
        return []
    if kind == "INDEX":
        table = tree.this.args.get("table") if creates else tree.find(exp.Table)
        # sqlglot's tree of DROP INDEX i ON t depends on its version: leave it to the regular expressions.
        return [_change("CINDEX", table, schema)] if creates and isinstance(table, exp.Table) else None
    if kind != "TABLE":
        return []
    if creates:
        target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
        return [_change("CREATE", target, schema)] if isinstance(target, exp.Table) else None
    tables = [tree.this, *tree.expressions]
    if not all(isinstance(table, exp.Table) for table in tables):
        return None
    return [_change("ERASE", table, schema) for table in tables]


def _alter(tree: exp.Alter, schema: str) -> list[TreeChange] | None:
    if not isinstance(tree.this, exp.Table):
        return None
    changed = [_change("ALTER", tree.this, schema)]
    renames = list(tree.find_all(exp.AlterRename))
    targets = [rename.this for rename in renames if isinstance(rename.this, exp.Table)]
    if renames:
        changed = [_change("RENAME", tree.this, schema)]
    return changed + [_change("RENAME", target, schema) for target in targets]


def _change(op: str, table: Any, schema: str) -> TreeChange:
    assert isinstance(table, exp.Table)
    return op, table.db or schema, table.name
