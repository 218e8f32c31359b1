"""Tables of the command line: with lines on a terminal, plain columns for pipes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sqlengine.session.live_table import LiveTable


def draw_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Draws a table: with lines and folded cells on a terminal, else a line a row with nothing cut
    off."""
    table = LiveTable(sys.stdout, headers, widest=None)
    table.rows([[str(cell) for cell in row] for row in rows])
    table.end()


def number(value: object) -> str:
    """Returns a count as tables show it: 1,204; nothing where there is none."""
    assert value is None or isinstance(value, int | float)
    return "" if value is None else f"{value:,.0f}"
