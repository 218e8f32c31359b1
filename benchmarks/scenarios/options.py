"""The options `--cores` and `--memory` of a program."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import click

from benchmarks.scenarios.sql_server import Share

T = TypeVar("T")


def share_options(command: Callable[..., T]) -> Callable[..., T]:
    """Gives a command both options, as its argument `share`."""

    @click.option("--cores", type=click.IntRange(1), default=2, show_default=True)
    @click.option("--memory", type=int, help="Bytes that the server may have resident.")
    @wraps(command)
    def shared(cores: int, memory: int | None, **others: object) -> T:
        return command(share=Share(cores, memory), **others)

    return shared
