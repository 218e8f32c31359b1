"""Servers that are killed: `python -m tests.recovery --kills 1000 --seed 1`.

Lives that die at the named points, and kills at any moment; each run of them compares what came out
with an undisturbed one."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

from tests.recovery.cluster_kills import ClusterRun, run_instances_named
from tests.recovery.kills import KINDS, Run, places_of, run_drawn, run_named
from tests.recovery.life import warm
from tests.recovery.page import write_page
from tests.recovery.points import INSTANCE, LEADER, MOMENTS, NAMES, POINTS, SERVER
from tests.recovery.side_by_side import Planned, SideBySide
from tests.recovery.tally import Tally

KILLS_OF_A_RUN = 50
_TELL_S = 30.0
_AT_POINTS: dict[str, tuple[type[Run], Callable[..., None]]] = {
    SERVER: (Run, run_named),
    LEADER: (ClusterRun, run_named),
    INSTANCE: (ClusterRun, run_instances_named),
}


def main() -> int:
    given = _arguments()
    faulthandler.enable()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("tests.recovery").setLevel(logging.INFO if given.tell else logging.WARNING)
    logging.getLogger("sqlengine").setLevel(logging.WARNING if given.tell else logging.CRITICAL)
    warm()
    tally = Tally(given.tally)
    runs = SideBySide([*_at_points(given), *_drawn(given)], given.jobs, tally, _TELL_S)
    runs.go()
    for (who, point, moment), count in (tally.named + tally.drawn).most_common():
        print(f"{count:>6} {who}: {moment} {point}")
    print(f"{tally.kills} kills, {tally.wall_s:.0f} s, {tally.cpu_s:.0f} s of processors")
    if runs.failed:
        print(f"failed: {', '.join(runs.failed)}")
    elif given.update:
        write_page(tally)
    return 1 if runs.failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.recovery", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="at any moment")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first run; each has so many kills:"
    )
    parser.add_argument("--of-a-run", type=int, default=KILLS_OF_A_RUN)
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="runs at a time"
    )
    parser.add_argument("--who", default=",".join(POINTS), help="who is killed at the points")
    parser.add_argument(
        "--points", default=",".join(NAMES), help="where to kill by name; '' for nowhere"
    )
    parser.add_argument("--moments", default=",".join(MOMENTS))
    parser.add_argument("--tally", type=Path, help="a file that adds up over runs")
    parser.add_argument(
        "--update", action="store_true", help="write down in docs/recovery.md what was killed where"
    )
    parser.add_argument("--tell", action="store_true", help="each kill")
    return parser.parse_args()


def _at_points(given: argparse.Namespace) -> Iterator[Planned]:
    """All of them in servers of each kind that meets them."""
    named = [*product(filter(None, given.points.split(",")), given.moments.split(","))]
    for who, kind in product(given.who.split(","), range(len(KINDS))):
        places = places_of(who, kind, named)
        if places:
            name = f"{who}, checkpoints in {KINDS[kind][0]}, at points"
            work = partial(_run_at_points, who=who, kind=kind, places=places, seed=given.seed)
            yield Planned(
                name, len(places) + sum(p == "recovery" for p, _ in places), work, named=True
            )


def _run_at_points(
    folder: Path, tally: Tally, *, who: str, kind: int, places: list[tuple[str, str]], seed: int
) -> None:
    make, run = _AT_POINTS[who]
    run(make(folder, tally, seed, kind), places)


def _drawn(given: argparse.Namespace) -> Iterator[Planned]:
    """Every other run is of a server with instances."""
    for number, left in enumerate(range(given.kills, 0, -given.of_a_run)):
        seed, kills = given.seed + number, min(given.of_a_run, left)
        make, name = (
            (ClusterRun, f"seed {seed}, instances") if number % 2 else (Run, f"seed {seed}")
        )
        yield Planned(
            name, kills, partial(_run_drawn, make=make, kills=kills, seed=seed), named=False
        )


def _run_drawn(folder: Path, tally: Tally, *, make: type[Run], kills: int, seed: int) -> None:
    run_drawn(make(folder, tally, seed), kills)


if __name__ == "__main__":
    sys.exit(main())
