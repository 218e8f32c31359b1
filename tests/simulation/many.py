"""Many lives, in one process or in several: what they met, and which failed, is the same."""

from __future__ import annotations

import logging
import signal
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context

from tests.simulation.life import Failed, live

IN_AN_EPOCH = "epoch"
# So many lives are one piece of work for a process, and so long nothing is told.
_PIECE, _TELL_S = 10, 20.0


@dataclass
class Met:
    """What lives have met: faults, kills by the place where they struck, and by seed what was wrong
    with a life that failed."""

    lives: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    cpu_s: float = 0.0

    def add(self, other: Met) -> None:
        self.lives += other.lives
        self.faults += other.faults
        self.kills += other.kills
        self.failures = dict(sorted({**self.failures, **other.failures}.items()))
        self.cpu_s += other.cpu_s

    @property
    def share_in_epochs(self) -> float:
        """Of the kills, those inside an epoch."""
        return self.kills[IN_AN_EPOCH] / max(1, self.kills.total())

    def show(self) -> None:
        for fault, count in sorted(self.faults.items()):
            print(f"{count:>8} {fault}")
        kills = dict(sorted(self.kills.items(), key=lambda kind: (-kind[1], kind[0])))
        print(f"{self.kills.total():>8} kills, {self.share_in_epochs:.0%} inside an epoch: {kills}")
        cpu_ms = 1000 * self.cpu_s / max(1, self.lives)
        print(
            f"{self.lives} lives, {cpu_ms:.0f} ms of CPU each, {len(self.failures)} failed:"
            f" {[*self.failures]}"
        )


def run(seeds: Iterable[int]) -> Met:
    """Lives, one after the other."""
    met, began = Met(), time.process_time()
    logging.disable(logging.CRITICAL)
    try:
        for seed in seeds:
            try:
                life = live(seed)
            except Failed as failure:
                life = failure.life
                met.failures[seed] = str(failure)
            met.lives += 1
            met.faults += life.world.met
            met.kills += life.world.kills
    finally:
        logging.disable(logging.NOTSET)
    met.cpu_s = time.process_time() - began
    return met


def run_many(seeds: range, processes: int) -> Met:
    """Lives in so many processes. Tells how far it is, and of a life that failed at once; Ctrl+C
    ends it with what there is."""
    met, began, told = Met(), time.monotonic(), 0.0
    try:
        for piece in _pieces(seeds, processes):
            met.add(piece)
            for failure in piece.failures.values():
                print(failure, flush=True)
            past = time.monotonic() - began
            if past - told >= _TELL_S:
                told, left = past, past * (len(seeds) / met.lives - 1)
                print(
                    f"{met.lives} of {len(seeds)} lives, {len(met.failures)} failed, {past:.0f} s,"
                    f" about {left:.0f} s left",
                    flush=True,
                )
    except KeyboardInterrupt:
        print("ended before all were lived", flush=True)
    return met


def _pieces(seeds: range, processes: int) -> Iterator[Met]:
    """What came of each piece, as they are done."""
    pieces = [seeds[at : at + _PIECE] for at in range(0, len(seeds), _PIECE)]
    if processes == 1:
        yield from map(run, pieces)
        return
    with ProcessPoolExecutor(processes, get_context("spawn"), _leave_interrupts) as pool:
        works = [pool.submit(run, piece) for piece in pieces]
        try:
            for work in as_completed(works):
                yield work.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Ctrl+C is for the process that tells."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
