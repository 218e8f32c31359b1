"""Servers that are killed: `python -m tests.recovery --kills 1000 --seed 1`.

First one life for each named point, then kills at any moment; each run compares what came out with an undisturbed one."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

from tests.recovery.kills import Tally, run_drawn, run_named
from tests.recovery.kills_in_parts import run_parts_drawn, run_parts_named
from tests.recovery.life import warm
from tests.recovery.mortal import MOMENTS, PART_POINTS, POINTS
from tests.recovery.page import write_page

KILLS_OF_A_RUN = 50


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.recovery", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="at any moment")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each has so many kills:")
    parser.add_argument("--of-a-run", type=int, default=KILLS_OF_A_RUN)
    parser.add_argument(
        "--points", default=",".join((*POINTS, *PART_POINTS)), help="where to kill by name; '' for nowhere"
    )
    parser.add_argument("--moments", default=",".join(MOMENTS))
    parser.add_argument("--tally", type=Path, help="a file that adds up over runs")
    parser.add_argument("--update", action="store_true", help="write down in docs/recovery.md what was killed where")
    parser.add_argument("--tell", action="store_true", help="each kill")
    given = parser.parse_args()
    faulthandler.enable()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("tests.recovery").setLevel(logging.INFO if given.tell else logging.WARNING)
    logging.getLogger("sqlengine").setLevel(logging.WARNING if given.tell else logging.CRITICAL)
    warm()
    tally, began = Tally() if given.tally is None else Tally.load(given.tally), time.monotonic()
    for seed, run in _runs(given):
        folder = Path(tempfile.mkdtemp(prefix="kills-"))
        try:
            tally.add(run(folder))
        except AssertionError as error:
            print(f"seed {seed}: {error}; what is left is in {folder}", flush=True)
            return 1
        shutil.rmtree(folder, ignore_errors=True)
        if given.tally is not None:
            tally.save(given.tally)
        print(f"seed {seed}: {tally.kills} kills, {time.monotonic() - began:.0f} s", flush=True)
    for (point, moment), count in (tally.named + tally.drawn).most_common():
        print(f"{count:>6} {moment} {point}")
    if given.update:
        write_page(tally)
    return 0


def _runs(given: argparse.Namespace) -> Iterator[tuple[int, Callable[[Path], Tally]]]:
    places = [*product(filter(None, given.points.split(",")), given.moments.split(","))]
    if {point for point, _ in places} & POINTS.keys():
        yield given.seed, lambda folder: run_named(folder, places, given.seed)
    if {point for point, _ in places} & PART_POINTS.keys():
        yield given.seed, lambda folder: run_parts_named(folder, places, given.seed)
    for number, left in enumerate(range(given.kills, 0, -given.of_a_run)):
        seed = given.seed + number
        run = run_parts_drawn if number % 2 else run_drawn
        yield seed, partial(run, kills=min(given.of_a_run, left), seed=seed)


if __name__ == "__main__":
    sys.exit(main())
