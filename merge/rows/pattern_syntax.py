r"""The syntax of patterns: canal's regular expressions, as the engine that matches them has to be told.

That engine is RE2, whose time is linear in what it matches, whatever the pattern (see `merge.rows.pattern`).
It has no lookaround, backreferences, possessive quantifiers or atomic groups: these are refused by name. What
it would read in another sense than Java and Python do is rewritten, or refused as well; nothing changes its
meaning in silence.

`\w` is a letter, digit or underscore of ASCII, or any character beyond ASCII, as in MySQL's identifiers. `\d`
and `\s` are ASCII's.
"""

from __future__ import annotations

import re

#: what may follow "(?" in Perl, and is not supported
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


class PatternSyntax(ValueError):  # noqa: N818  named for what is wrong, as merge.errors
    """A pattern that cannot be used; its text says why, for a sentence's parentheses."""


def in_engine(pattern: str) -> str:
    """Return a pattern in RE2's syntax, with the same meaning.

    Raises:
        PatternSyntax: it uses what RE2 does not have. What is no pattern at all is left to RE2 to refuse.
    """
    if any("\ud800" <= char <= "\udfff" for char in pattern):
        raise PatternSyntax("it holds a surrogate, which is no character")
    return "".join(_tokens(pattern))


def _tokens(pattern: str) -> list[str]:
    tokens, place = [], 0
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            token, place = _escape(pattern, place, inside=False)
        elif char == "[":
            token, place = _class(pattern, place)
        elif char == "(":
            token, place = _group(pattern, place)
        else:
            quantifier = _QUANTIFIER.match(pattern, place)
            token, place = (char, place + 1) if quantifier is None else _quantifier(pattern, quantifier)
        tokens.append(token)
    return tokens


def _quantifier(pattern: str, found: re.Match[str]) -> tuple[str, int]:
    token, place = found[0], found.end()
    if pattern[place : place + 1] == "+":
        raise PatternSyntax(f"possessive quantifiers such as {token}+ are not supported")
    # RE2 takes {,3} for the text itself.
    return token.replace("{,", "{0,"), place


def _group(pattern: str, place: int) -> tuple[str, int]:
    if not pattern.startswith("(?", place):
        return "(", place + 1
    for begin, name in _GROUPS.items():
        if pattern.startswith(begin, place + 2):
            raise PatternSyntax(f"{name}, (?{begin}...), is not supported")
    flags = _FLAGS.match(pattern, place)
    if flags is not None:
        unknown = sorted(set(flags["flags"]) - _KNOWN_FLAGS)
        if unknown:
            raise PatternSyntax(f"the flag {unknown[0]} is not supported")
        return flags[0], flags.end()
    return "(?", place + 2


def _class(pattern: str, place: int) -> tuple[str, int]:
    """Return a character class, from its opening bracket to its closing one, and where it ends."""
    begin = place
    place += 1
    place += pattern.startswith("^", place)
    tokens = [pattern[begin:place]]
    first = True
    while place < len(pattern) and (first or pattern[place] != "]"):
        first = False
        if pattern[place] == "\\":
            token, place = _escape(pattern, place, inside=True)
        elif pattern.startswith("[:", place):
            raise PatternSyntax("a POSIX class, [:...:], is not supported")
        elif pattern[place] == "[":
            token, place = "\\[", place + 1
        else:
            token, place = pattern[place], place + 1
        tokens.append(token)
    # Without a closing bracket RE2 refuses it.
    return "".join([*tokens, pattern[place : place + 1]]), place + 1


def _escape(pattern: str, place: int, *, inside: bool) -> tuple[str, int]:
    char = pattern[place + 1 : place + 2]
    rest = place + 2
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
        # An escaped underscore is one, and so is whatever stands beyond ASCII; RE2 knows neither.
        return (char if char == "_" or not char.isascii() else f"\\{char}"), rest
    where = " inside brackets" if inside else ""
    raise PatternSyntax(f"\\{char} is not supported{where}")


def _code_point(pattern: str, place: int, count: int) -> tuple[str, int]:
    digits = pattern[place : place + count]
    if len(digits) != count or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
        raise PatternSyntax(f"\\{'u' if count == _HEX_DIGITS['u'] else 'U'} needs {count} hexadecimal digits")
    return f"\\x{{{digits}}}", place + count
