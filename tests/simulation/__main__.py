"""Lives by seed: `python -m tests.simulation --lives 1000`, and one again with all that happened:
`--seed 17`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from hashlib import blake2b

from tests.simulation.life import Failed, Life, live
from tests.simulation.many import Met, run_many
from tests.simulation.world import shown
from tests.support import ROOT

PAGE = ROOT / "docs" / "simulation.md"
_BEGIN, _END = "<!-- written by python -m tests.simulation --update -->\n", "<!-- end -->\n"


def digest(life: Life) -> str:
    """Of all that happened."""
    return blake2b("\n".join(map(shown, life.world.trace)).encode(), digest_size=16).hexdigest()


def page(text: str, met: Met, first: int) -> str:
    """The page with what these lives have met, between its two marks."""
    head, _, rest = text.partition(_BEGIN)
    died = f"{met.kills.total():,} kills ({met.share_in_epochs:.0%} of them inside an epoch)"
    torn = f"{met.faults['torn write']:,} torn writes"
    instances = f"{met.faults['death of an instance']:,} of the kills struck an instance"
    line = (
        f"The last long run had {met.lives:,} lives, seeds {first} to {first + met.lives - 1}, with"
        f" {died}, {torn} and\n{met.faults['loss of power']:,} losses of power; {instances}."
        f" {_judged(met)}\n"
    )
    return head + _BEGIN + line + _END + rest.partition(_END)[2]


def _judged(met: Met) -> str:
    if not met.failures:
        return "No row was lost or doubled."
    return f"{len(met.failures)} failed: seeds {', '.join(map(str, met.failures))}."


def _many(given: argparse.Namespace) -> int:
    met = run_many(range(given.first, given.first + given.lives), given.jobs)
    met.show()
    if given.update:
        PAGE.write_text(page(PAGE.read_text(), met, given.first))
    return bool(met.failures) or met.lives < given.lives


def _one(seed: int, only_digest: bool) -> int:
    logging.disable(logging.CRITICAL)
    try:
        life = live(seed)
    except Failed as failure:
        print(*map(shown, failure.life.world.trace), sep="\n")
        traceback.print_exception(failure.__cause__)
        print(failure)
        return 1
    print(digest(life)) if only_digest else print(*map(shown, life.world.trace), sep="\n")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="one life, with all that happened")
    parser.add_argument("--digest", action="store_true", help="of that life only a digest")
    parser.add_argument("--first", type=int, default=0, help="the first seed of many")
    parser.add_argument("--lives", type=int, default=1000)
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes; a life is the same in any"
    )
    parser.add_argument(
        "--update", action="store_true", help="write down in docs/simulation.md what they met"
    )
    given = parser.parse_args()
    return _many(given) if given.seed is None else _one(given.seed, given.digest)


if __name__ == "__main__":
    sys.exit(main())
