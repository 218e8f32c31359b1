"""`python -m tests.hostile.fuzzing --minutes 30`: rounds of attacks until the time is over."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

from tests.hostile.fuzzing.attacks import ATTACKS
from tests.hostile.fuzzing.house import House

# The attacks of a round, and the rounds between two starts of the server.
ROUND, LIFE = 40, 25


def attack(house: House, seed: int, met: Counter[str]) -> None:
    """A round: attacks by its seed, then the look at the witness."""
    random = Random(seed)
    for _ in range(ROUND):
        name = random.choice(list(ATTACKS))
        ATTACKS[name](random, house)
        met[name] += 1
    house.check()
    if seed % LIFE == LIFE - 1:
        house.again(random)
        house.check()


def fuzz(folder: Path, first: int, seconds: float, rounds: int = 1) -> Counter[str]:
    """Attacks a server for so long, or so many `rounds` if they take longer. Returns how often each attack was made; raises as the round
    that failed does, with its seed."""
    met: Counter[str] = Counter()
    deadline, seed = time.monotonic() + seconds, first
    with House(folder) as house:
        while time.monotonic() < deadline or seed < first + rounds:
            try:
                attack(house, seed, met)
            except BaseException as error:
                error.add_note(
                    f"round of seed {seed}: python -m tests.hostile.fuzzing --seed {seed}"
                )
                raise
            seed += 1
        met["starts of the server"] = house.lives
        met["rows of the witness"] = house.fed
    return met


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.fuzzing", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="of the first round")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sqlengine-fuzzing-") as folder:
        met = fuzz(Path(folder), given.seed, 60 * given.minutes)
    for name, count in met.most_common():
        print(f"{count:>9,} {name.replace('_', ' ')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
