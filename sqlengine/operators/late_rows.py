"""Rows that came when their window was over."""

from __future__ import annotations

from planner.logical import Stateful
from sqlengine.batch import Batch, IntArray
from sqlengine.operators.base import ERROR_PORT, Context, Output
from sqlengine.operators.dead_letters import dead_letters

REASON = "late: its window was over"


class LateRows:
    """Counts them (`late_rows`); where the job asks for them, they leave as its dead letters."""

    def __init__(self, node: Stateful, owner: str) -> None:
        self._tells = node.tells_late
        self._owner = owner
        self._subject = f"{type(node).__name__} {node.label}"

    def open(self, context: Context) -> None:
        self._counters = context.counters

    def drop(self, batch: Batch, rows: IntArray, output: Output) -> None:
        """These rows of the batch are late."""
        count = len(rows)
        self._counters["late_rows"] += count
        if self._tells and count:
            letters = dead_letters(
                batch.take(rows),
                owner=self._owner,
                place="",
                subject=self._subject,
                reason=REASON,
            )
            output.append((ERROR_PORT, letters))
