"""Runs of OVER calls in batch mode, as Flink computes them.

The calls over one window are computed in runs, and the first call of a run decides the frame: it
says whether peers (rows with equal values of the order) are seen together. CUME_DIST after RANK,
and all calls after NTILE, see one row at a time; NTILE after an aggregate has the aggregate's
frame."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from planner.logical import Frame, OverCall

_RANKS = frozenset({"RANK", "DENSE_RANK", "PERCENT_RANK", "CUME_DIST"})
_ROW_BY_ROW = Frame(is_rows=True)


def by_frame(calls: Sequence[OverCall], frame: Frame) -> dict[Frame, list[OverCall]]:
    """Returns the calls, in the order of the text, by the frame that each has.

    `frame` is that of the window."""
    calls_by_frame: dict[Frame, list[OverCall]] = {}
    # ROW_NUMBER interrupts no run: it is the same with any frame.
    row_numbers = [c for c in calls if c.function == "ROW_NUMBER"]
    if row_numbers:
        calls_by_frame[frame] = row_numbers
    for _, group in groupby((c for c in calls if c.function != "ROW_NUMBER"), _kind):
        run = list(group)
        for call in run:
            calls_by_frame.setdefault(_frame(call, run[0], frame), []).append(call)
    return calls_by_frame


def _kind(call: OverCall) -> str:
    """Returns the kind of a call; calls of one kind that follow each other are a run."""
    if call.function in _RANKS:
        return "ranks"
    return "offsets" if call.function in ("LAG", "LEAD") else "frames"


def _frame(call: OverCall, first: OverCall, frame: Frame) -> Frame:
    """Returns the frame of a call in a run that begins with `first`."""
    if call.function == "CUME_DIST":
        return Frame() if first.function == "CUME_DIST" else _ROW_BY_ROW
    return _ROW_BY_ROW if first.function == "NTILE" else frame
