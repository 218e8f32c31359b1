"""Columns that are computed below an operation, since it takes names of columns and no values."""

from __future__ import annotations

from planner.scalar import ColumnRef, Scalar


def name_in(computed: dict[str, Scalar], value: Scalar, prefix: str) -> str:
    """Returns the name of a column with this value: its own, that under which it is computed
    already, or a new one, `prefix` and a number, which is added.

    >>> from parser.types import INT
    >>> from planner.scalar import Call
    >>> columns, a = {}, ColumnRef("a", INT)
    >>> [name_in(columns, v, "window$") for v in (a, Call("-", (a,), INT), Call("-", (a,), INT))]
    ['a', 'window$0', 'window$0']
    """
    if isinstance(value, ColumnRef):
        return value.name
    known = next((n for n, e in computed.items() if e.digest == value.digest), None)
    name = known or f"{prefix}{len(computed)}"
    computed[name] = value
    return name
