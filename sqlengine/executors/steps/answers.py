"""Bounds how long the steps of a graph wait for tables that are asked for the rows of keys."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from parser.errors import OptionError
from planner.graph.physical import PhysicalNode
from planner.logical import AskedScan, LookupJoin
from planner.settings import duration_ms

# The setting of a job: an answer that takes longer is slow. One that takes `SLOW_FACTOR` times as
# long ends the step while others wait.
LOOKUP_TIME: Final = "job.isolation.lookup-time"
SLOW_FACTOR: Final = 5
_DEFAULT_MS: Final = 1_000
PATIENCE_S: Final = SLOW_FACTOR * _DEFAULT_MS / 1000
NEVER: Final = math.inf
# Shorter ones are not remembered.
_SHORTEST_S: Final = 0.1
_MOST: Final = 200


@dataclass(frozen=True)
class SlowAnswer:
    """A step that waited long for a table: `at` is its end by a monotonic clock, in s."""

    node: PhysicalNode
    at: float
    seconds: float


class SlowAnswers:
    """The last steps of a graph that waited long. Written by its thread, read by any."""

    def __init__(self) -> None:
        self.last: deque[SlowAnswer] = deque(maxlen=_MOST)

    def note(
        self, spent: Mapping[str, float], nodes: Mapping[str, PhysicalNode], at: float
    ) -> None:
        """Notes what the nodes of a step have taken, in s."""
        for name, seconds in spent.items():
            if seconds >= _SHORTEST_S and asked_table(nodes[name]) is not None:
                self.last.append(SlowAnswer(nodes[name], at, seconds))


def asked_table(node: PhysicalNode) -> str | None:
    """Returns the table that a node asks for rows, for people; None for any other node."""
    plan = node.plan
    if isinstance(plan, LookupJoin) and isinstance(plan.right, AskedScan):
        return plan.right.table.display
    return None


def lookup_time_s(settings: Mapping[str, str]) -> float:
    """Returns the value of 'job.isolation.lookup-time' in s. OptionError for 0."""
    seconds = duration_ms(settings, LOOKUP_TIME, _DEFAULT_MS) / 1000
    if not seconds:
        raise OptionError(f"'{LOOKUP_TIME}' cannot be 0", hint="it is a time such as '500 ms'")
    return seconds
