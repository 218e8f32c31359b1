"""Draws the files of the watched folder that were not taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import click

from parser.errors import render
from sqlengine.client import Json, Refused
from sqlengine.system.words import counted, grouped

_AGAIN: Final = "  this is tried again by itself: nothing is to be done once the cause is gone"


def draw_refused_files(files: Iterable[Json]) -> None:
    """Tells each reason once, with the files that were refused for it."""
    by_name = {str(file["file"]): file for file in files}
    errors = {name: Refused(e) for name, f in by_name.items() if isinstance(e := f["error"], dict)}
    alike = grouped(
        ((e.title, e.reason, e.hint, by_name[name].get("tried_again") is True), name)
        for name, e in errors.items()
    )
    for (*_, again), names in alike.items():
        click.echo(f"{_not_taken(names)}:\n{render(errors[names[0]])}", err=True)
        if again:
            click.echo(_AGAIN, err=True)


def _not_taken(files: Sequence[str]) -> str:
    if len(files) == 1:
        return f"{files[0]} was not taken"
    return f"{counted(files, 'file')} were not taken"
