"""Lives by seed: `python -m tests.simulation --lives 1000`, and one again with all that happened: `--seed 17`."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from collections import Counter

from tests.simulation.life import Failed, Life, live
from tests.simulation.world import shown

IN_AN_EPOCH = "epoch"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one life, with its trace")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--lives", type=int, default=1000)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.seed is not None:
        return _one(given.seed)
    return _many(range(given.first, given.first + given.lives))


def _one(seed: int) -> int:
    try:
        life = live(seed)
    except Failed as failure:
        _show(failure)
        return 1
    print(*map(shown, life.world.trace), sep="\n")
    return 0


def _show(failure: Failed) -> None:
    life: Life = failure.life  # type: ignore[attr-defined]
    print(*map(shown, life.world.trace), sep="\n")
    traceback.print_exception(failure.__cause__)
    print(failure)


def _many(seeds: range) -> int:
    met: Counter[str] = Counter()
    kills: Counter[str] = Counter()
    failures = []
    began = time.process_time()
    for seed in seeds:
        try:
            life = live(seed)
        except Failed as failure:
            failures.append(str(failure)[:300])
            life = failure.life  # type: ignore[attr-defined]
        met += life.world.met
        kills += life.world.kills
    spent = time.process_time() - began
    for fault, count in sorted(met.items()):
        print(f"{count:>8} {fault}")
    share = kills[IN_AN_EPOCH] / max(1, kills.total())
    print(f"{kills.total():>8} kills, {share:.0%} inside an epoch: {dict(kills.most_common())}")
    print(f"{len(seeds)} lives, {1000 * spent / len(seeds):.1f} ms of CPU each, {len(failures)} failed")
    print(*failures, sep="\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
