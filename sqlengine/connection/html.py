"""Tables and plans as notebooks show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

# Rows that are shown of a result.
SHOWN: Final = 20


def as_table(names: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Returns a table of HTML; numbers stand on the right, None is NULL."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    foot = f"<p>{escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"


def as_pre(text: str) -> str:
    """Returns a text whose lines and spaces count."""
    return f"<pre>{escape(text)}</pre>"


def _cell(value: object) -> str:
    if value is None:
        return "<td><i>NULL</i></td>"
    right = isinstance(value, int | float) and not isinstance(value, bool)
    style = ' style="text-align:right"' if right else ""
    return f"<td{style}>{escape(str(value))}</td>"
