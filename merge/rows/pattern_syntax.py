r"""The syntax of patterns: canal's regular expressions, as the engine that matches them has to be told.

That engine is RE2, whose time is linear in what it matches, for any pattern (see
`canal_group.merge.rows.pattern`). It has no lookaround, backreferences, possessive quantifiers or atomic
groups: these are refused by name. Syntax that it reads in another sense than Java and Python is rewritten, or
refused as well; no meaning changes silently.

`\w` is a letter, digit or underscore of ASCII, or any character beyond ASCII, as in MySQL's identifiers. `\d`
and `\s` are ASCII's.
"""

from __future__ import annotations

import re

#: text after "(?" in Perl that is not supported -> its name
_GROUPS = {
    "=": "lookahead",
    "!": "negative lookahead",
    "<=": "lookbehind",
    "<!": "negative lookbehind",
    ">": "an atomic group",
    "P=": "a backreference",
    "(": "a conditional group",
    "#": "a comment",
}
_WORD = {True: r"\w\x{80}-\x{10ffff}", False: r"[\w\x{80}-\x{10ffff}]"}
_NO_WORD = r"\x00-/:-@\[-\^`{-\x7f"
#: escapes that RE2 has, and reads as Python does
_SAME = frozenset("aAdDfnrstvSpPxz0")
_HEX_DIGITS = {"u": 4, "U": 8}
#: escapes that stand between characters, and so in no class
_OUTSIDE_ONLY = frozenset("AZz")
_QUANTIFIER = re.compile(r"[*+?]|\{[0-9]+(,[0-9]*)?\}|\{,[0-9]*\}")
_FLAGS = re.compile(r"\(\?(?P<flags>[a-zA-Z-]+)[:)]")
_KNOWN_FLAGS = frozenset("ims-")


class PatternSyntax(ValueError):  # noqa: N818  the name says the error, as in canal_group.merge.errors
    """A pattern that cannot be used; its text says why, for a sentence's parentheses."""


def in_engine(pattern: str) -> str:
    """Return a pattern in RE2's syntax, with the same meaning.

    Raises:
        PatternSyntax: it uses syntax that RE2 lacks. RE2 itself refuses a text that is not a pattern at all.
    """
    if any("\ud800" <= char <= "\udfff" for char in pattern):
        raise PatternSyntax("it holds a surrogate, which is not a character")
    return "".join(_tokens(pattern))


def _tokens(pattern: str) -> list[str]:
    tokens, at = [], 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            token, at = _escape(pattern, at, inside=False)
        elif char == "[":
            token, at = _class(pattern, at)
        elif char == "(":
            token, at = _group(pattern, at)
        else:
            quantifier = _QUANTIFIER.match(pattern, at)
            token, at = (char, at + 1) if quantifier is None else _quantifier(pattern, quantifier)
        tokens.append(token)
    return tokens


def _quantifier(pattern: str, match: re.Match[str]) -> tuple[str, int]:
    token, at = match[0], match.end()
    if pattern[at : at + 1] == "+":
        raise PatternSyntax(f"possessive quantifiers such as {token}+ are not supported")
    # RE2 takes {,3} for the text itself.
    return token.replace("{,", "{0,"), at


def _group(pattern: str, at: int) -> tuple[str, int]:
    if not pattern.startswith("(?", at):
        return "(", at + 1
    for begin, name in _GROUPS.items():
        if pattern.startswith(begin, at + 2):
            raise PatternSyntax(f"{name}, (?{begin}...), is not supported")
    flags = _FLAGS.match(pattern, at)
    if flags is not None:
        unknown = sorted(set(flags["flags"]) - _KNOWN_FLAGS)
        if unknown:
            raise PatternSyntax(f"the flag {unknown[0]} is not supported")
        return flags[0], flags.end()
    return "(?", at + 2


def _class(pattern: str, at: int) -> tuple[str, int]:
    """Return a character class with both brackets, and the offset of its end."""
    begin = at
    at += 1
    at += pattern.startswith("^", at)
    tokens = [pattern[begin:at]]
    first = True
    while at < len(pattern) and (first or pattern[at] != "]"):
        first = False
        if pattern[at] == "\\":
            token, at = _escape(pattern, at, inside=True)
        elif pattern.startswith("[:", at):
            raise PatternSyntax("a POSIX class, [:...:], is not supported")
        elif pattern[at] == "[":
            token, at = "\\[", at + 1
        else:
            token, at = pattern[at], at + 1
        tokens.append(token)
    # Without a closing bracket RE2 refuses it.
    return "".join([*tokens, pattern[at : at + 1]]), at + 1


def _escape(pattern: str, at: int, *, inside: bool) -> tuple[str, int]:
    char = pattern[at + 1 : at + 2]
    rest = at + 2
    if not char:
        return "\\", rest  # RE2 refuses it
    if "1" <= char <= "9" or char == "k":
        raise PatternSyntax(f"a backreference, \\{char}, is not supported")
    if char == "w":
        return _WORD[inside], rest
    if char == "W":
        return (_NO_WORD if inside else f"[{_NO_WORD}]"), rest
    if char == "Z" and not inside:
        return r"\z", rest
    if char in _HEX_DIGITS:
        return _code_point(pattern, rest, _HEX_DIGITS[char])
    if (char in _SAME and not (inside and char in _OUTSIDE_ONLY)) or not (char.isascii() and char.isalpha()):
        # An escaped underscore is one, and so is a character beyond ASCII; RE2 knows neither.
        return (char if char == "_" or not char.isascii() else f"\\{char}"), rest
    where = " inside brackets" if inside else ""
    raise PatternSyntax(f"\\{char} is not supported{where}")


def _code_point(pattern: str, at: int, count: int) -> tuple[str, int]:
    digits = pattern[at : at + count]
    if len(digits) != count or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise PatternSyntax(f"\\{'u' if count == _HEX_DIGITS['u'] else 'U'} needs {count} hexadecimal digits")
    return f"\\x{{{digits}}}", at + count
