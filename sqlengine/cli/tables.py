"""Tables of the command line: with lines on a terminal, plain columns for pipes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click


def draw_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Draws a table: with lines and folded cells on a terminal, else a line a row with nothing cut
    off."""
    cells = [[str(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
        for row in (headers, *cells):
            click.echo(
                "  ".join(
                    cell.ljust(width) for cell, width in zip(row, widths, strict=True)
                ).rstrip()
            )
        return
    from rich.console import Console  # a tenth of a second, for people only
    from rich.table import Table

    table = Table()
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in cells:
        table.add_row(*row)
    Console(markup=False).print(table)


def count(number: int, noun: str) -> str:
    """Returns a number with its noun: 1 job, 1,414 jobs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@contextmanager
def at_work(what: str) -> Iterator[None]:
    """Shows a status on a terminal while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
