"""Lives by seed: `python -m tests.simulation --lives 1000`, and one again with all that happened: `--seed 17`."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from tests.simulation.life import Failed, Life, live
from tests.simulation.world import shown

IN_AN_EPOCH = "epoch"


@dataclass
class Met:
    """What lives have met: faults, kills by the place where they struck, and lives that failed."""

    lives: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    cpu_s: float = 0.0

    def show(self) -> None:
        for fault, count in sorted(self.faults.items()):
            print(f"{count:>8} {fault}")
        share = self.kills[IN_AN_EPOCH] / max(1, self.kills.total())
        print(f"{self.kills.total():>8} kills, {share:.0%} inside an epoch: {dict(self.kills.most_common())}")
        print(
            f"{self.lives} lives, {1000 * self.cpu_s / max(1, self.lives):.0f} ms of CPU each, {len(self.failures)} failed"
        )


def run(seeds: Iterable[int], *, tell: bool = False) -> Met:
    """Lives, one after the other; with `tell`, each that fails is printed at once, and Ctrl+C ends it with what there is."""
    met, began = Met(), time.process_time()
    logging.disable(logging.CRITICAL)
    try:
        for seed in seeds:
            try:
                life = live(seed)
            except Failed as failure:
                life = failure.life
                met.failures.append(str(failure))
                if tell:
                    print(failure, flush=True)
            met.lives += 1
            met.faults += life.world.met
            met.kills += life.world.kills
    except KeyboardInterrupt:
        if not tell:
            raise
    finally:
        logging.disable(logging.NOTSET)
    met.cpu_s = time.process_time() - began
    return met


def digest(life: Life) -> str:
    """Of all that happened."""
    return blake2b("\n".join(map(shown, life.world.trace)).encode(), digest_size=16).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one life, with all that happened")
    parser.add_argument("--digest", action="store_true", help="of that life only a digest")
    parser.add_argument("--first", type=int, default=0, help="the first seed of many")
    parser.add_argument("--lives", type=int, default=1000)
    given = parser.parse_args()
    if given.seed is None:
        met = run(range(given.first, given.first + given.lives), tell=True)
        met.show()
        return bool(met.failures)
    logging.disable(logging.CRITICAL)
    try:
        life = live(given.seed)
    except Failed as failure:
        print(*map(shown, failure.life.world.trace), sep="\n")
        traceback.print_exception(failure.__cause__)
        print(failure)
        return 1
    print(digest(life)) if given.digest else print(*map(shown, life.world.trace), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
