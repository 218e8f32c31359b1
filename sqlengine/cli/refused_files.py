"""Draws the files of the watched folder that were not taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import click

from parser.errors import render
from sqlengine.cli.tables import count
from sqlengine.client import Json, Refused

# So many files are named of those that were refused for one reason.
_NAMED: Final = 3
_AGAIN: Final = "  this is tried again by itself: nothing is to be done once the cause is gone"


def draw_refused_files(files: Iterable[Json]) -> None:
    """Tells each reason once, with the files that were refused for it."""
    groups: dict[tuple[str, bool], list[str]] = {}
    for file in files:
        error = file["error"]
        assert isinstance(error, dict)
        reason = render(Refused(error)), file.get("tried_again") is True
        groups.setdefault(reason, []).append(str(file["file"]))
    for (reason_text, again), names in groups.items():
        click.echo(f"{_not_taken(names)}\n{reason_text}", err=True)
        if again:
            click.echo(_AGAIN, err=True)


def _not_taken(files: Sequence[str]) -> str:
    if len(files) == 1:
        return f"{files[0]} was not taken:"
    more = f" and {len(files) - _NAMED:,} more" if len(files) > _NAMED else ""
    return f"{count(len(files), 'file')} were not taken, {', '.join(files[:_NAMED])}{more}:"
