"""The page that says what was killed where: docs/recovery.md, between its two marks."""

from __future__ import annotations

from collections.abc import Iterator

from tests.recovery.in_parts import PATHS as PATHS_IN_PARTS
from tests.recovery.kills import Tally
from tests.recovery.mortal import MOMENTS, PART_POINTS, POINTS
from tests.recovery.workload import PATHS
from tests.support import ROOT

PAGE = ROOT / "docs" / "recovery.md"
_BEGIN, _END = "<!-- written by python -m tests.recovery --update -->\n", "<!-- end -->\n"


def write_page(tally: Tally) -> None:
    head, _, rest = PAGE.read_text().partition(_BEGIN)
    tail = rest.partition(_END)[2]
    PAGE.write_text(head + _BEGIN + "\n".join(_tables(tally)) + "\n" + _END + tail)


def _tables(tally: Tally) -> Iterator[str]:
    columns = " | ".join(f"killed {m}" for m in MOMENTS)
    yield f"{tally.named.total()} kills at named points and {tally.drawn.total()} at any moment: nothing lost, nothing doubled."
    yield f"\n| path to | taken by | holds | {columns} its output | last seen there |\n|---|---|---|---|---|---|---|"
    for path, (taken, holds) in PATHS.items():
        yield f"| {path} | {taken} | {holds} | {_counts(tally, f'output of {path}')} |"
    yield f"\n| point | what happens | {columns} it | last seen there |\n|---|---|---|---|---|---|"
    for point, happens in POINTS.items():
        if not point.startswith("output of "):
            yield f"| {point} | {happens} | {_counts(tally, point)} |"
    yield "\n| path to, in two instances | taken by | holds |\n|---|---|---|"
    for path, (taken, holds) in PATHS_IN_PARTS.items():
        yield f"| {path} | {taken} | {holds} |"
    yield f"\n| point of an instance | what happens | {columns} it | last seen there |\n|---|---|---|---|---|---|"
    for point, happens in PART_POINTS.items():
        yield f"| {point} | {happens} | {_counts(tally, point)} |"
    yield f"\n{tally.drawn['start', '']} of the kills at any moment came before anything was changed."


def _counts(tally: Tally, point: str) -> str:
    named = [tally.named[point, moment] for moment in MOMENTS]
    return " | ".join(map(str, [*named, sum(tally.drawn[point, moment] for moment in MOMENTS)]))
