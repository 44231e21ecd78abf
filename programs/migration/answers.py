"""Answers: what is said of the entries that no setting has asked for, so that every entry has an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from canal_group.programs.migration import keys
from canal_group.programs.migration.canal_files.properties import Entry, Properties
from canal_group.programs.migration.canal_files.view import View
from canal_group.programs.migration.report import Report


def answer_rest(files: Sequence[Properties], views: Sequence[View], report: Report) -> None:
    """Answer the entries that have no answer yet.

    Args:
        files: canal's files.
        views: the instances.
        report: has the other answers, and takes these.
    """
    everything = "\n".join(entry.raw for file in files for entry in file.entries.values())
    mode = (views[0].text("canal.serverMode") or "tcp").lower()
    for file in files:
        for entry in file.replaced:
            report.note(entry, f"replaced by line {file.entries[entry.key].line}, as in canal")
        for entry in file.entries.values():
            if not report.has(entry):
                _answer(entry, views, everything, mode, report)


def _answer(entry: Entry, views: Sequence[View], everything: str, mode: str, report: Report) -> None:
    overriding = [view.entry(entry.key) for view in views]
    meaning, left_to_do = keys.meaning(entry.key), keys.left_to_do(entry.key)
    if entry not in overriding:
        first = overriding[0]
        report.note(entry, f"replaced by {first.location}, as in canal" if first is not None else "not used")
    elif re.search(rf"\$\{{\s*{re.escape(entry.key)}\s*[:}}]", everything) and meaning is None:
        report.note(entry, "the value of a placeholder")
    elif entry.raw and left_to_do is not None:
        report.act(entry, left_to_do)
    elif meaning is None:
        report.act(entry, keys.unknown(entry.key))
    elif keys.is_of_queues(entry.key) and mode == "tcp":
        report.note(entry, "not used: `canal.serverMode` is tcp, and canal publishes to no message queue")
    else:
        report.note(entry, meaning)
