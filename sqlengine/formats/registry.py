"""The formats by name. A file of this folder registers its format; third parties use the entry point group
'sqlengine.formats', whose objects are the formats' classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

from parser.errors import PlanError
from sqlengine.formats.base import Format
from sqlengine.formats.options import did_you_mean

_formats: dict[str, Format] = {}

F = TypeVar("F", bound=Format)


def format_(name: str) -> Callable[[type[F]], type[F]]:
    """Registers the decorated class, made without arguments, under `name`."""

    def register(cls: type[F]) -> type[F]:
        _formats[name] = cls()
        return cls

    return register


@cache
def formats() -> dict[str, Format]:
    """All formats by name."""
    from sqlengine.formats import csv_, json_, raw  # noqa: F401  each registers itself

    for point in entry_points(group="sqlengine.formats"):
        if point.name not in _formats:
            _formats[point.name] = point.load()()
    return _formats


def get_format(name: str) -> Format:
    """The format of that name; PlanError with what was probably meant."""
    known = formats()
    if name not in known:
        hint = did_you_mean(name, known) or "known formats: " + ", ".join(sorted(known))
        raise PlanError(f"unknown format '{name}'", hint=hint)
    return known[name]
