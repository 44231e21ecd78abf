"""The summary: what a demo came to, in words, and what to try next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from canal_group.programs.demo.instance import DESTINATION
from canal_group.programs.demo.proof import Findings
from canal_group.programs.demo.report import DemoReport


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a demo came to, and where its instance is."""

    report: DemoReport
    findings: Findings
    #: how often the consumer rolled back
    rollbacks: int
    #: the addresses of its page and gateway
    page: str
    gateway: str


@dataclass(frozen=True, slots=True)
class NextSteps:
    """What to try after a demo."""

    #: the command line's program
    program: str
    #: the command of this demo that does not stop at the end
    staying: str
    #: other commands, and what they do
    others: tuple[tuple[str, str], ...]


#: after the demo of recorded binlogs, where the package is installed
RECORDED: Final = NextSteps(
    program="canal-group",
    staying="canal-group demo --files --stay",
    others=(("canal-group --help", "the commands, for your own servers"),),
)


def summary(outcome: Outcome) -> Iterator[str]:
    """Yield the lines of the result; each fits 80 columns."""
    report = outcome.report
    yield "The stream is right:" if report.ok else "The stream is wrong, see the lines with !:"
    size = f"{_count(report.transactions, 'transaction')}, {_rows(report.rows)}"
    yield f"  {report.shards} shards became one stream: {size}."
    if report.snapshot_rows:
        read, changed = _rows(report.snapshot_rows), _count(report.rows, "change")
        yield f"  {read} were there when they were read, {changed} came beside them."
    yield _judged(report.missing, "Every row that was written arrived.", "Written, but did not arrive: {}.")
    yield _judged(
        report.duplicates,
        _repeated(outcome.findings.again, outcome.rollbacks),
        "Came again without a rollback, or was never written: {}.",
    )
    yield _judged(
        report.order_violations, "No row came before an older one.", "Came before an older one: {}."
    )
    yield _judged(
        report.split_transactions,
        "Each transaction came whole, with no other one in it.",
        "Came in pieces: {}.",
        "transaction",
    )
    yield (
        "  Applied to empty tables, the stream gave exactly the rows of the servers."
        if report.tables_equal
        else "! Applied to empty tables, the stream gave other rows than the servers hold."
    )
    if report.latency_ms_p50 is not None and report.latency_ms_p99 is not None:
        yield f"  {report.rows_per_s:,.0f} rows a second arrived while the writers wrote at full speed."
        yield (
            f"  From INSERT to consumer: {report.latency_ms_p50:,.0f} ms in the median, "
            f"99 of 100 within {report.latency_ms_p99:,.0f} ms."
        )


def what_next(outcome: Outcome, steps: NextSteps, *, stay: bool) -> Iterator[str]:
    """Yield the lines with the page's address and the commands to try."""
    where = f"-d {DESTINATION} -g {outcome.gateway}"
    if stay:
        yield f"The page is {outcome.page}; all of it stays until Ctrl-C."
        yield "Try in another terminal:"
        yield f"  {steps.program} status {where}"
        yield f"  {steps.program} consume {where} \\"
        yield "    --client me --from earliest"
        return
    yield f"The page was {outcome.page}; it ends with the demo."
    yield "Try next:"
    commands = ((steps.staying, "the same, with page and gateway until Ctrl-C"), *steps.others)
    width = max(len(command) for command, _ in commands)
    for command, what in commands:
        yield f"  {command:<{width}}  {what}"


def _judged(faults: int, right: str, wrong: str, noun: str = "row") -> str:
    """Return the line of a property: `right`, or `wrong` with the number of its faults."""
    return f"! {wrong.format(_count(faults, noun))}" if faults else f"  {right}"


def _repeated(again: int, rollbacks: int) -> str:
    if not again:
        return "Each row came once."
    times = "once" if rollbacks == 1 else f"{rollbacks:,} times"
    return f"{_rows(again)} came again, as the consumer rolled back {times} on purpose."


def _rows(number: int) -> str:
    return _count(number, "row")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
