"""Durations and sizes as people write them on the command line."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NoReturn

import click

UNSET: Final = object()  # an option that was not given, apart from one that is given as 'none'
_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


if TYPE_CHECKING:
    _ParamType = click.ParamType[object]  # older versions have no parameter
else:
    _ParamType = click.ParamType


class Amount(_ParamType):
    """A number with a unit; 'none' is None."""

    def __init__(self, name: str, units: dict[str, int], example: str) -> None:
        self.name = name
        self._units = units
        self._example = example

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        if value is UNSET or isinstance(value, int):
            return value
        text = str(value).strip()
        if text.lower() == "none":
            return None
        match = _NUMBER.fullmatch(text)
        factor = self._units.get(match[2].lower()) if match else None
        if match is None or factor is None:
            self._refuse(text, param, ctx)
        return int(float(match[1]) * factor)

    def _refuse(
        self, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> NoReturn:
        units = ", ".join(unit for unit in self._units if unit)
        self.fail(
            f"'{text}' is no {self.name}: write it like {self._example}, with one of {units}, or"
            " none",
            param,
            ctx,
        )

    def show(self, value: int) -> str:
        """Returns the value with the largest unit that divides it."""
        fit = [
            (factor, unit)
            for unit, factor in self._units.items()
            if unit != "b" and value and value % factor == 0
        ]
        factor, unit = max(fit, default=(1, ""))
        return f"{value // factor:,}{unit.upper() if self.name == 'size' else unit}"


class Moment(_ParamType):
    """A time in ms since 1970: such as 2026-01-31T12:00 in UTC, or so long ago as 7d."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        if isinstance(value, int):
            return value
        text = str(value).strip()
        match = _NUMBER.fullmatch(text)
        if match is not None and (factor := _MS.get(match[2].lower())):
            return round(time.time() * 1000) - int(float(match[1]) * factor)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"'{text}' is no time: write 7d, or 2026-01-31T12:00 (UTC)", param, ctx)
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return round(zoned.timestamp() * 1000)


DURATION = Amount("duration", _MS, "7d")
SIZE = Amount("size", _BYTES, "10GB")
