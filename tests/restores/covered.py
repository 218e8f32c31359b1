"""What the tests of this folder have covered, as a table for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from tests.restores.running import Report
from tests.sql.golden import Script, scripts
from tests.support import ROOT

PAGE: Final = ROOT / "docs" / "restores.md"
STREAMING: Final = tuple(s for s in scripts() if s.mode == "streaming")
# By script, as they are run, by whatever process.
DONE: dict[str, Report] = {}
# Under this name a test tells what it has covered.
COVERED: Final = "covered"
# The name of a script, what was done, and what was left out and why.
Told: TypeAlias = tuple[str, dict[str, int], list[tuple[str, str, int]]]

_COLUMNS: Final = {
    "statements": "statements",
    "with state": "with state",
    "restored": "restored",
    "kills": "kills",
    "replays": "epochs repeated",
    "in instances": "in instances",
    "batches": "batches",
    "interleaved": "over shards",
    "orders of shards": "orders",
}
_TEXT: Final = """# What is proved of restores, instances and shards

Every streaming statement of the golden scripts (`tests/sql`) is run again: killed and taken up from its checkpoint and its \
epoch log (a read takes 1 row, about 10 times with a checkpoint each; then 3 rows, behind every epoch, and epochs are \
repeated, some of them after a part of the sinks had their rows), in several instances whose buckets move from batch to batch, and over tables whose \
lines are dealt to three shards in two ways. After a restore the rows of every epoch are the same, in order; instances and \
shards leave the same rows in the end. `pytest tests/restores -m "" -n 2` does it, and with `--update` it writes this page.

"""


def told(script: Script, report: Report) -> Told:
    """A report as it goes from process to process."""
    return script.name, dict(report.done), [(*what, count) for what, count in report.left_out.items()]


def hear(told: Told) -> None:
    name, done, left_out = told
    DONE[name] = Report(Counter(done), Counter({(what, why): count for what, why, count in left_out}))


def complete() -> bool:
    return DONE.keys() == {s.name for s in STREAMING}


def together(reports: Iterable[Report]) -> Report:
    """The sum of them."""
    whole = Report()
    for report in reports:
        whole.add(report)
    return whole


def page(reports: Mapping[str, Report]) -> str:
    """The page; scripts are summed up by their folders."""
    areas: dict[str, Report] = {}
    for name, report in sorted(reports.items()):
        areas.setdefault(str(Path(name).parent), Report()).add(report)
    whole = together(reports.values())
    lines = ["| area | " + " | ".join(_COLUMNS.values()) + " |", "|---" * (len(_COLUMNS) + 1) + "|"]
    lines += [_line(area, report.done) for area, report in areas.items()]
    lines += [_line("all", whole.done), "", "Left out:", ""]
    left_out = sorted(whole.left_out.items(), key=lambda item: (item[0][0], -item[1], item[0][1]))
    lines += [f"- not {what}, {count} statements: {why}" for (what, why), count in left_out]
    about = f"{len(reports)} of {len(STREAMING)} scripts, by folder:\n\n"
    return _TEXT + about + "\n".join(lines) + "\n"


def _line(name: str, done: Counter[str]) -> str:
    return f"| {name} | " + " | ".join(f"{done[c]:,}" for c in _COLUMNS) + " |"
