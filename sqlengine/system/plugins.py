"""Connectors, formats and functions by entry point: ours and those of other distributions.

A distribution declares what it brings in its pyproject.toml, `name = "module:Class"`:

    [project.entry-points."sqlengine.connectors"]
    http = "acme_http.connector:HttpConnector"

Names are known without importing any module; a module is imported when its name is first used."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Final, Generic, TypeVar

from sqlengine.system.stamps import stamp_of

CONNECTORS: Final = "sqlengine.connectors"
FORMATS: Final = "sqlengine.formats"
FUNCTIONS: Final = "sqlengine.functions"

_OWN: Final = "sqlengine"
# Where pyproject.toml is in a checkout; beside an installed wheel there is none of ours.
_PROJECT: Final = Path(__file__).parents[2] / "pyproject.toml"

T = TypeVar("T")


class Plugins(Generic[T]):
    """The objects of one group by name, each made without arguments when it is first asked for.
    Any thread: what two threads make at once is equal."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._points: Mapping[str, EntryPoint] | None = None
        self._made: dict[str, T] = {}

    def names(self) -> list[str]:
        """Returns all names in order; imports nothing."""
        return sorted(self._declared())

    def get(self, name: str) -> T | None:
        """Returns the object of that name; None where no distribution declares it."""
        if name not in self._made:
            point = self._declared().get(name)
            if point is None:
                return None
            make: Callable[[], T] = point.load()
            self._made.setdefault(name, make())
        return self._made[name]

    def _declared(self) -> Mapping[str, EntryPoint]:
        if self._points is None:
            self._points = points(self._group)
        return self._points


def points(group: str) -> Mapping[str, EntryPoint]:
    """Returns the entry points of a group by name, as they are installed now. Ours win over those
    of other distributions; what an install of ours knows and this checkout does not is left out.

    An install changes a folder of the path: until then they are as they were read."""
    return _points_now(group, tuple(map(stamp_of, (*map(Path, sys.path), _PROJECT))))


@lru_cache(maxsize=8)
def _points_now(group: str, _: tuple[object, ...]) -> Mapping[str, EntryPoint]:
    others = (p for p in entry_points(group=group) if p.dist is None or p.dist.name != _OWN)
    return {p.name: p for p in (*others, *own_points(group))}


def own_points(group: str) -> list[EntryPoint]:
    """Returns our own entry points of a group.

    In a checkout they are read from pyproject.toml itself: the metadata of an editable install is
    as old as the last `make setup`, and a checkout that was never installed has none. In the wheel,
    where there is no pyproject.toml, they come from its metadata."""
    if _PROJECT.is_file():
        declared = tomllib.loads(_PROJECT.read_text("utf-8"))["project"]
        if declared["name"] == _OWN:
            values = declared.get("entry-points", {}).get(group, {})
            return [EntryPoint(name, value, group) for name, value in values.items()]
    installed = entry_points(group=group)
    return [p for p in installed if p.dist is not None and p.dist.name == _OWN]
