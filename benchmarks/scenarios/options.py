"""The options that programs have in common, and what they tell at their end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Protocol, TypeVar

import click

from benchmarks.page import Section, show, write
from benchmarks.scenarios.sql_server import Share

T = TypeVar("T")


class Judged(Protocol):
    """What came of a run. `good`: nothing was lost, nothing came twice, and the memory was enough."""

    @property
    def good(self) -> bool: ...
    @property
    def per_second(self) -> float: ...
    @property
    def per_cpu_second(self) -> float: ...


def run_options(command: Callable[..., T]) -> Callable[..., T]:
    """Gives a command these options: `share`, `output`, `kept` and `folder`."""

    @click.option(
        "--cores", type=click.IntRange(1), default=2, show_default=True, help="Of the engine."
    )
    @click.option("--memory", type=int, help="Bytes that the engine may have resident.")
    @click.option(
        "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
    )
    @click.option("--write", "kept", is_flag=True, help="Puts the table into docs/benchmarks.md.")
    @click.option("--folder", type=click.Path(path_type=Path), help="Keeps what the servers wrote.")
    @wraps(command)
    def shared(cores: int, memory: int | None, **others: object) -> T:
        return command(share=Share(cores, memory), **others)

    return shared


def report(
    result: Judged, figures: Mapping[str, object], section: Section, output: str, kept: bool
) -> None:
    """Tells what came of it, as JSON with all `figures`, and ends the process: with 1 unless it is good."""
    if output == "json":
        rates = {"per_second": result.per_second, "per_cpu_second": result.per_cpu_second}
        print(json.dumps({"good": result.good, **rates, **figures}))
    else:
        show(section)
    if kept:
        write(section)
    sys.exit(0 if result.good else 1)
