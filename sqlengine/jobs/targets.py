"""The target of a job: its operators run in the server's process, or in tasks of Spark.

A graph runs in one of them. Its name says in which, where that is not the server's default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from parser.errors import OptionError
from sqlengine.config import Target
from sqlengine.jobs.job import MAIN

TARGET: Final = "execution.target"
TARGETS: Final[tuple[Target, ...]] = get_args(Target)


def target_of(name: str) -> Target:
    """Returns the target of that name. OptionError where there is none."""
    for target in TARGETS:
        if target == name.strip().lower():
            return target
    raise OptionError(f"'{TARGET}' cannot be '{name}'", hint=f"it is {' or '.join(TARGETS)}")


def target_in(settings: Mapping[str, str], default: Target) -> Target:
    """Returns where a job with these settings runs. OptionError for an impossible value."""
    return target_of(settings[TARGET]) if TARGET in settings else default


def graph_for(graph: str, target: Target, default: Target) -> str:
    """Returns the name of a graph that runs there, `graph` being the name where `default` is."""
    return graph if target == default else f"{graph}.{target}"


def target_of_graph(graph: str, default: Target) -> Target:
    """Returns where the graph of that name runs."""
    return next((target for target in TARGETS if graph.endswith(f".{target}")), default)


def is_main(graph: str) -> bool:
    """True for the graphs that jobs share: there is one for each target."""
    return graph == MAIN or graph.removeprefix(f"{MAIN}.") in TARGETS
