"""Isolation settings of a job: its isolation group, and the limits above which it gets a graph of
its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from parser.errors import JobError, OptionError
from planner.settings import duration_ms
from sqlengine.executors.steps.answers import NEVER, SLOW_FACTOR, lookup_time_s
from sqlengine.jobs.job import check_name
from sqlengine.jobs.restart_strategy import strategy_in

ISOLATION: Final = "job.isolation"
COMMIT_TIME: Final = "job.isolation.commit-time"
ERROR_RATE: Final = "job.isolation.error-rate"
COST: Final = "job.isolation.cost"
CALM: Final = "job.isolation.calm"
# Values of `job.isolation` that name no group: shared, and moved with a reason; shared, and never
# moved unasked.
RESOURCE_SENSITIVE: Final = "resource-sensitive"
OFF: Final = "off"
_CALM_MS: Final = 600_000
_GROUP: Final = "+"  # no name of a job begins so


@dataclass(frozen=True)
class IsolationLimits:
    """Limits above which a job is isolated in a graph of its own.

    `commit_s`: seconds for a commit of one of its sinks; `lookup_s`: seconds of a step for a table
    that it asks for rows; `error_rate`: dead letters per row that
    its graph reads; `cost`: its part (0 to 1) of the graph's time. `calm_s`: seconds below all
    limits before it is merged again. `group`: it shares a graph only with jobs of this group.
    `moves`: False if it is never moved unasked.
    """

    commit_s: float
    lookup_s: float
    error_rate: float
    cost: float
    calm_s: float
    group: str | None
    moves: bool


def limits_in(settings: Mapping[str, str]) -> IsolationLimits:
    """Returns the limits that a job's settings give, else the defaults. Raises OptionError for an
    impossible value."""
    kind = settings.get(ISOLATION, RESOURCE_SENSITIVE).strip().lower()
    shared = kind in (RESOURCE_SENSITIVE, OFF)
    return IsolationLimits(
        duration_ms(settings, COMMIT_TIME, 1_000) / 1000,
        lookup_time_s(settings),
        _share(settings, ERROR_RATE),
        _share(settings, COST),
        duration_ms(settings, CALM, _CALM_MS) / 1000,
        None if shared else _group(kind),
        kind != OFF,
    )


def patience_in(settings: Mapping[str, str]) -> float:
    """Returns how long (s) others may wait in one step for a table that a job asks, before it
    leaves them: for ever, where it would not be started again for that."""
    limits = limits_in(settings)
    again = strategy_in(settings).is_endless
    return limits.lookup_s * SLOW_FACTOR if limits.moves and again else NEVER


def graph_of(group: str, number: str) -> str:
    """Returns the name of a graph that the jobs of an isolation group share; no other kind of graph
    has such a name."""
    return f"{_GROUP}{group}@{number}"


def group_of(graph: str) -> str | None:
    """Returns the isolation group whose jobs share the graph of that name; None for any other."""
    return graph.removeprefix(_GROUP).rsplit("@", 1)[0] if graph.startswith(_GROUP) else None


def _group(name: str) -> str:
    try:
        return check_name(name)
    except JobError as error:
        hint = (
            f"it is '{RESOURCE_SENSITIVE}', '{OFF}', 'error-sensitive' or another name of a group"
        )
        raise OptionError(
            f"'{ISOLATION}' cannot be '{name}'", detail=error.detail, hint=hint
        ) from None


def _share(settings: Mapping[str, str], key: str) -> float:
    text = settings.get(key, "0.5")
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise OptionError(f"'{key}' cannot be '{text}'", hint="it is a part of 1, such as '0.5'")
    return share
