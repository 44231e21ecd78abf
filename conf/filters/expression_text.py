"""Expression text: the part of SQL's syntax that row filters and computed columns are written in.

sqlglot reads the text as MySQL's. What `canal_group.merge.rows.expressions.expression` cannot compute is
refused by name. It reads nothing else: the statements of a source are cut by a lexer that does it as the
servers do (see `canal_group.binlog.schema.clauses.tokens`). sqlglot's loses escapes in texts (a line feed
becomes `n`), splits names that begin with a digit, and takes `{#` for a comment.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, Field

from canal_group.conf.value import unfit
from canal_group.merge.rows.expressions.expression import Call, Column, Constant, Expression

if TYPE_CHECKING:
    from sqlglot import exp

#: longest expression, characters
CHARS_MAX = 4_096
#: deepest expression, operators inside each other
DEPTH_MAX = 100
#: class of sqlglot's node -> operator, and the node's keys that hold its arguments, in order
_OPERATORS: Final = {
    "And": ("and", ("this", "expression")),
    "Or": ("or", ("this", "expression")),
    "Not": ("not", ("this",)),
    "EQ": ("=", ("this", "expression")),
    "NEQ": ("<>", ("this", "expression")),
    "LT": ("<", ("this", "expression")),
    "LTE": ("<=", ("this", "expression")),
    "GT": (">", ("this", "expression")),
    "GTE": (">=", ("this", "expression")),
    "NullSafeEQ": ("<=>", ("this", "expression")),
    "In": ("in", ("this", "expressions")),
    "Like": ("like", ("this", "expression")),
    "Add": ("+", ("this", "expression")),
    "Sub": ("-", ("this", "expression")),
    "Mul": ("*", ("this", "expression")),
    "Div": ("/", ("this", "expression")),
    "Mod": ("%", ("this", "expression")),
    "Neg": ("negate", ("this",)),
    "Abs": ("abs", ("this",)),
    "Lower": ("lower", ("this",)),
    "Upper": ("upper", ("this",)),
    "Length": ("char_length", ("this",)),
    "Concat": ("concat", ("expressions",)),
    "Coalesce": ("coalesce", ("this", "expressions")),
    "Left": ("left", ("this", "expression")),
    "Right": ("right", ("this", "expression")),
}
#: what sqlglot notes of a node besides its arguments, and what does not change its meaning here
_NOTES: Final = {"typed", "safe", "coalesce"}


class ExpressionError(ValueError):
    """The text is not an expression that can be computed; the message says why."""


def parse_expression(text: str) -> Expression:
    """Return the expression that a text describes.

    Raises:
        ExpressionError: it is too long or too deep, or is not in the syntax that is supported.
    """
    import sqlglot  # noqa: PLC0415 - only where there are expressions: it takes long to import
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    if len(text) > CHARS_MAX:
        raise ExpressionError(f"it has more than {CHARS_MAX} characters")
    try:
        expressions = sqlglot.parse(text, read="mysql")
    except SqlglotError as error:
        raise ExpressionError(str(error).partition("\n")[0].split(" Line ")[0].rstrip(".")) from None
    except RecursionError:
        raise ExpressionError("it is too deep") from None
    if len(expressions) != 1 or expressions[0] is None:
        raise ExpressionError("it is not one expression")
    return _built(expressions[0], 0)


def _built(node: Any, depth: int) -> Expression:
    kind = type(node).__name__
    if depth > DEPTH_MAX:
        raise ExpressionError("it is too deep")
    leaf = _leaf(kind, node)
    if leaf is not None:
        return leaf
    if kind == "Paren":
        return _built(node.this, depth + 1)
    if kind == "Is":
        return _is(node, depth)
    if kind == "Between" and not node.args.get("symmetric"):
        value, low, high = (_built(node.args[key], depth + 1) for key in ("this", "low", "high"))
        return Call("between", (value, low, high))
    return _call(kind, node, depth)


def _leaf(kind: str, node: Any) -> Column | Constant | None:
    if kind == "Column":
        if node.table:
            raise ExpressionError(f"column {node.sql('mysql')} has a table; name the column alone")
        return Column(node.name)
    if kind == "Literal":
        return Constant(node.name if node.is_string else _number(node.name))
    if kind == "Boolean":
        return Constant(bool(node.this))
    return Constant(None) if kind == "Null" else None


def _call(kind: str, node: exp.Expression, depth: int) -> Expression:
    operator, keys = _OPERATORS.get(kind, ("", ()))
    unknown = [key for key, value in node.args.items() if value and key not in keys and key not in _NOTES]
    if not operator or unknown:
        raise ExpressionError(f"{node.sql('mysql')[:100]} is not supported")
    held = [node.args[key] for key in keys]
    nodes = [each for value in held for each in (value if isinstance(value, list) else [value])]
    arguments = tuple(_built(each, depth + 1) for each in nodes)
    if operator in {"left", "right"} and not (
        isinstance(arguments[1], Constant) and type(arguments[1].value) is int
    ):
        raise ExpressionError(f"{node.sql('mysql')[:100]} needs a number as its second argument")
    return Call(operator, arguments)


def _is(node: exp.Expression, depth: int) -> Expression:
    value, tested = _built(node.this, depth + 1), _built(node.args["expression"], depth + 1)
    if tested == Constant(None):
        return Call("is_null", (value,))
    if isinstance(tested, Constant) and isinstance(tested.value, bool):
        # Never NULL: the value, or FALSE for NULL, compared with the word.
        truth = Call("coalesce", (Call("not", (Call("not", (value,)),)), Constant(False)))
        return truth if tested.value else Call("and", (Call("not", (truth,)), _known(value)))
    raise ExpressionError(f"{node.sql('mysql')[:100]} is not supported")


def _known(value: Expression) -> Expression:
    return Call("not", (Call("is_null", (value,)),))


def _number(text: str) -> int | float | Decimal:
    if text.isdecimal():
        value = int(text)
        return value if value < 1 << 64 else Decimal(value)
    return float(text) if "e" in text.lower() else Decimal(text)


def _checked(value: str) -> str:
    try:
        parse_expression(value)
    except ExpressionError as error:
        raise unfit(f"be an expression ({error})") from None
    return value


#: an expression as an operator writes it
ExpressionText: TypeAlias = Annotated[str, Field(min_length=1), AfterValidator(_checked)]
