"""Takes jobs that fail out of a graph that is recovered, just before the epoch in which they fail.

Their state is that of the last complete epoch, and all they have written is out: they go on from
there exactly. The jobs that stay never know of them.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Final

from parser.errors import SqlError
from planner.graph.merge import merge
from sqlengine.executors.runner import GraphRunner
from sqlengine.graphs.host import Faults, GraphHost
from sqlengine.snapshots.job_snapshot import capture, groups_of

log = logging.getLogger("sqlengine")

_KEPT: Final = "-kept"


@dataclass(frozen=True)
class Departure:
    """Versions of jobs that fail in an epoch, with their errors."""

    epoch: int
    faults: Faults

    def take_out(self, runner: GraphRunner, host: GraphHost) -> dict[str, str]:
        """Removes the jobs between two epochs that a recovery repeats, and returns the keys under
        which their snapshots are stored; '' for those that could not be stored."""
        kept: dict[str, str] = {}
        present = [n for n, v in self.faults if runner.jobs.get(n) == v]
        for number, names in enumerate(groups_of(runner.graph, present)):
            key = f"{runner.name}!{self.epoch}.{number}{_KEPT}"
            try:
                host.store_snapshot(key, capture(runner, *names))
            except SqlError as error:
                log.warning("jobs %s lose their position: %s", ", ".join(names), error)
                key = ""
            _remove(runner, names)
            kept |= dict.fromkeys(names, key)
        return kept


def _remove(runner: GraphRunner, names: list[str]) -> None:
    """Switches to a graph without the jobs, of the same version: the log does not know of it."""
    graph = runner.graph
    rest = merge(replace(graph, version=graph.version - 1), dict.fromkeys(names))
    runner.switch(replace(runner.prepare(rest, dict.fromkeys(names, 0)), moved=True))


def is_departure(key: str) -> bool:
    """True if a snapshot was stored by a recovery that took its jobs out."""
    return "!" in key and key.endswith(_KEPT)
