"""The distributed graph of all jobs of a server that can run in parts: its name, and how many."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from sqlengine.broker.base import Broker
from sqlengine.cluster.subtask_log import subtask_count
from sqlengine.config import Config

log = logging.getLogger("sqlengine")

# A graph with another number of parts than the first one has that number behind the name: shared.4.
SHARED: Final = "shared"


def is_shared(graph: str) -> bool:
    """True if `graph` is the name of a distributed graph for all jobs, of any number of parts."""
    return graph == SHARED or (
        graph.startswith(f"{SHARED}.") and graph.removeprefix(f"{SHARED}.").isdigit()
    )


@dataclass(frozen=True)
class SharedGraph:
    """The graph that a server has for jobs in parts."""

    name: str
    parts: int


def shared_graph(config: Config, broker: Broker) -> SharedGraph | None:
    """Returns the shared distributed graph that is configured; None without instances.

    The number of parts is fixed for the life of a graph: another number needs another graph.
    Each part has epochs of its own, which cost more than their rows: hence few by default.
    """
    if not config.instances:
        return None
    first = subtask_count(broker, SHARED)
    parts = config.parts or first or max(2, config.instances)
    name = SHARED if first in (None, parts) else f"{SHARED}.{parts}"
    if parts < config.instances:
        log.warning(
            "graph %s has %d parts, so of %d instances only as many start",
            name,
            parts,
            config.instances,
        )
    return SharedGraph(name, parts)
