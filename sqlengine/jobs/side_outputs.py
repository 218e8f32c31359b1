"""What a statement writes besides its own rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.analysis.late_rows import late_sinks
from planner.logical import Sink
from sqlengine.connectors.registry import delivered


def with_late_rows(sinks: Iterable[Sink], settings: Mapping[str, str]) -> list[Sink]:
    """Each optimised statement, and behind it what writes its late rows to their table. SqlError
    where the table does not take them."""
    return [
        s
        for sink in sinks
        for s in (sink, *(delivered(late, settings) for late in late_sinks(sink)))
    ]
