"""What a job says of the graph that it runs in, and when it may share one no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from parser.errors import JobError, OptionError
from planner.settings import duration_ms
from sqlengine.jobs.job import check_name

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
    """What a job may take before it goes to a graph of its own: a commit of one of its sinks (s),
    dead letters by row that its graph reads, the part of the graph's time. `calm_s`: how long it
    must be well before it comes back. `group`: the jobs with which alone it shares a graph;
    `moves`: whether it is ever moved unasked."""

    commit_s: float
    error_rate: float
    cost: float
    calm_s: float
    group: str | None
    moves: bool


def limits_in(settings: Mapping[str, str]) -> IsolationLimits:
    """Those of a job's settings, or the defaults. SqlError for what cannot be."""
    kind = settings.get(ISOLATION, RESOURCE_SENSITIVE).strip().lower()
    shared = kind in (RESOURCE_SENSITIVE, OFF)
    return IsolationLimits(
        duration_ms(settings, COMMIT_TIME, 1_000) / 1000,
        _share(settings, ERROR_RATE),
        _share(settings, COST),
        duration_ms(settings, CALM, _CALM_MS) / 1000,
        None if shared else _group(kind),
        kind != OFF,
    )


def graph_of(group: str, number: str) -> str:
    """The name of a graph that the jobs of an isolation group share: no other graph has such a
    name."""
    return f"{_GROUP}{group}@{number}"


def group_of(graph: str) -> str | None:
    """The isolation group whose jobs share a graph, by its name; None for any other graph."""
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
