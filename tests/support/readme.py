"""README's code blocks, by name: indented ones and fenced ones."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
#: names of the blocks below each heading, in order
NAMES = {
    "canal-group": ("picture",),
    "Five minutes": ("make", "demo"),
    "Install": ("pip",),
    "Your own servers": ("my.cnf", "account", "instance", "commands"),
    "Where are my existing rows?": ("dump",),
    "A consumer in ten lines": ("consumer",),
    "Spark in ten lines": ("query",),
    "A relay to a file": ("relay", "relay command", "message"),
    "Coming from canal": ("import",),
}
_INDENT, _FENCE = "    ", "```"


def blocks(text: str) -> dict[str, list[str]]:
    """Return the code blocks of a Markdown text by heading, each without its indent or fence."""
    found: dict[str, list[str]] = {}
    heading, fenced = "", False
    block: list[str] = []
    for line in [*text.splitlines(), "# "]:
        if not fenced and line.startswith(_INDENT):
            block.append(line.removeprefix(_INDENT))
        elif not fenced and block and not line:
            block.append("")
        elif fenced and not line.startswith(_FENCE):
            block.append(line)
        else:
            if any(block):
                found.setdefault(heading, []).append("\n".join(block).rstrip("\n") + "\n")
            block = []
            if line.startswith(_FENCE):
                fenced = not fenced
            elif title := re.match("#+ (.*)", line):
                heading = title[1]
    return found


def block(name: str) -> str:
    """Return the text of a block of README."""
    (text,) = (
        text
        for heading, texts in blocks(README.read_text()).items()
        for known, text in zip(NAMES[heading], texts, strict=True)
        if known == name
    )
    return text
