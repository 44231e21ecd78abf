"""README's code blocks, by name: indented ones and fenced ones."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
#: names of the blocks below each heading of README, in order
NAMES = {
    "canal-group": ("picture",),
    "Five minutes": ("make", "demo"),
    "Install": ("pip",),
    "Your own servers": ("my.cnf", "account", "instance", "commands"),
    "A consumer in ten lines": ("consumer",),
    "Spark in ten lines": ("query",),
    "Coming from canal": ("import",),
}
#: what README leads to: the document, the heading, and the blocks below it
ELSEWHERE = {
    ("operating.md", "Rows that were there before"): ("dump",),
    ("relaying.md", "A relay to a file"): ("relay", "relay command", "message"),
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
    """Return the text of a block of README, or of what it leads to."""
    sections = [(README, heading, names) for heading, names in NAMES.items()]
    sections += [(ROOT / "docs" / file, heading, names) for (file, heading), names in ELSEWHERE.items()]
    (text,) = (
        text
        for file, heading, names in sections
        if name in names
        for known, text in zip(names, blocks(file.read_text())[heading], strict=True)
        if known == name
    )
    return text
