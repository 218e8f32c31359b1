"""Runs of OVER calls in batch mode, as Flink computes them.

The calls over one window are computed in runs: the first call of a run says how rows with equal
values of the order are seen. CUME_DIST behind RANK, and all behind NTILE, see one row after the
other; NTILE behind an aggregate sees as many rows as that."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from planner.logical import Frame, OverCall

_RANKS = frozenset({"RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST"})
_ROW_BY_ROW = Frame(is_rows=True)


def by_frame(calls: Sequence[OverCall], frame: Frame) -> dict[Frame, list[OverCall]]:
    """The calls, in the order of the text, by the frame that each of them has; `frame` is that of
    the window."""
    found: dict[Frame, list[OverCall]] = {}
    numbers = [c for c in calls if c.function == "ROW_NUMBER"]
    runs = groupby((c for c in calls if c.function != "ROW_NUMBER"), _kind)
    placed = [
        (c, _frame(c, run[0], frame))
        for _, calls_of in runs
        for run in [list(calls_of)]
        for c in run
    ]
    for call, own in (*((n, frame) for n in numbers), *placed):
        found.setdefault(own, []).append(call)
    return found


def _kind(call: OverCall) -> str:
    if call.function in _RANKS:
        return "ranks"
    return "offsets" if call.function in ("LAG", "LEAD") else "frames"


def _frame(call: OverCall, first: OverCall, frame: Frame) -> Frame:
    """Returns the frame of a call in a run that begins with `first`."""
    if call.function == "CUME_DIST":
        return Frame() if first.function == "CUME_DIST" else _ROW_BY_ROW
    return _ROW_BY_ROW if first.function == "NTILE" else frame
