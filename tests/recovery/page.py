"""The page that says what was killed where: docs/recovery.md, between its two marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.recovery.cluster_workload import BESIDE, DIVIDED
from tests.recovery.points import INSTANCE, LEADER, MOMENTS, POINTS, SERVER
from tests.recovery.tally import Place, Tally
from tests.recovery.workload import PATHS
from tests.support import ROOT

PAGE = ROOT / "docs" / "recovery.md"
_BEGIN, _END = "<!-- written by python -m tests.recovery --update -->\n", "<!-- end -->\n"


def write_page(tally: Tally) -> None:
    head, _, rest = PAGE.read_text().partition(_BEGIN)
    tail = rest.partition(_END)[2]
    PAGE.write_text(head + _BEGIN + "\n".join(_tables(tally)) + "\n" + _END + tail)


def _tables(tally: Tally) -> Iterator[str]:
    yield (
        f"{tally.named.total()} kills at named points and {tally.drawn.total()} at any moment:"
        f" nothing lost, nothing doubled. They took {tally.wall_s / 60:.0f} minutes by the clock"
        f" and {tally.cpu_s / 60:.0f} minutes of processors."
    )
    yield "\n### A server alone\n"
    yield from _paths("path to", PATHS, tally, [SERVER])
    yield from _points("point", SERVER, tally)
    yield "\n### A server with two instances\n"
    yield from _paths("path in parts to", DIVIDED, tally, [INSTANCE, LEADER])
    yield from _paths("path in its process to", BESIDE, tally, [LEADER])
    yield from _points("point of an instance", INSTANCE, tally)
    yield from _points("point of the server", LEADER, tally)
    early = sum(tally.drawn[Place(who)] for who in POINTS)
    yield f"{early} of the kills at any moment came before anything was changed."


def _paths(
    title: str, paths: Mapping[str, tuple[str, str]], tally: Tally, who: Sequence[str]
) -> Iterator[str]:
    """Counts of each who comes to a path, one beside the other."""
    whose = [f"{name} " if len(who) > 1 else "" for name in who]
    yield _head(
        [
            title,
            "taken by",
            "holds",
            *(column for w in whose for column in _columns(f"{w}killed", "its output")),
        ]
    )
    for path, (taken, holds) in paths.items():
        yield _row(
            [
                path,
                taken,
                holds,
                *(n for name in who for n in _counts(tally, name, f"output of {path}")),
            ]
        )
    yield ""


def _points(title: str, who: str, tally: Tally) -> Iterator[str]:
    yield _head([title, "what happens", *_columns("killed", "it")])
    for point, happens in POINTS[who].items():
        if not point.startswith("output of "):
            yield _row([point, happens, *_counts(tally, who, point)])
    yield ""


def _columns(killed: str, what: str) -> list[str]:
    before, within, after = MOMENTS
    return [f"{killed} {before}", within, f"{after} {what}", "last seen there"]


def _head(cells: Sequence[str]) -> str:
    return _row(cells) + "\n" + "|---" * len(cells) + "|"


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _counts(tally: Tally, who: str, point: str) -> list[int]:
    places = [Place(who, point, moment) for moment in MOMENTS]
    return [*(tally.named[place] for place in places), sum(tally.drawn[place] for place in places)]
