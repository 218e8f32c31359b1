"""The target of a job: its operators run in the server's process, or in tasks of Spark.

A graph runs in one of them. Its name says in which, where that is not the server's default. A job
on Spark whose latency is to be low runs in parts, if instances run there: each is the embedded
executor, wherever it is (ADR 21)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

from parser.errors import OptionError
from sqlengine.config import Target
from sqlengine.jobs.job import MAIN

TARGET: Final = "execution.target"
TARGETS: Final[tuple[Target, ...]] = get_args(Target)
LATENCY: Final = "execution.latency"
Latency: TypeAlias = Literal["throughput", "low"]
LATENCIES: Final[tuple[Latency, ...]] = get_args(Latency)


def target_of(name: str) -> Target:
    """Returns the target of that name. OptionError where there is none."""
    for target in TARGETS:
        if target == name.strip().lower():
            return target
    raise OptionError(f"'{TARGET}' cannot be '{name}'", hint=f"it is {' or '.join(TARGETS)}")


def target_in(settings: Mapping[str, str], default: Target) -> Target:
    """Returns where a job with these settings runs. OptionError for an impossible value."""
    return target_of(settings[TARGET]) if TARGET in settings else default


def latency_in(settings: Mapping[str, str]) -> Latency:
    """Returns what a job on Spark is to be good at. OptionError for an impossible value."""
    given = settings.get(LATENCY, LATENCIES[0])
    for latency in LATENCIES:
        if latency == given.strip().lower():
            return latency
    raise OptionError(f"'{LATENCY}' cannot be '{given}'", hint=f"it is {' or '.join(LATENCIES)}")


def graph_for(graph: str, target: Target, default: Target) -> str:
    """Returns the name of a graph that runs there, `graph` being the name where `default` is."""
    return graph if target == default else f"{graph}.{target}"


def target_of_graph(graph: str, default: Target) -> Target:
    """Returns where the graph of that name runs."""
    return next((target for target in TARGETS if graph.endswith(f".{target}")), default)


def is_main(graph: str) -> bool:
    """True for the graphs that jobs share: there is one for each target."""
    return graph == MAIN or graph.removeprefix(f"{MAIN}.") in TARGETS
