"""The session's time zone at the calls that read it."""

from __future__ import annotations

from planner.analysis.context import AnalysisContext
from planner.analysis.time_zones import with_zone
from planner.binder.metadata import read_in_utc
from planner.logical import LogicalPlan, Sink
from planner.rewrite import map_expressions, transform_sink
from planner.scalar import UTC


def bind_time_zone(sink: Sink, context: AnalysisContext) -> Sink:
    """Sets the session's time zone at every call that depends on it, in the views and the tables
    that the statement reads, too: they are read in the zone of the reader.

    >>> from planner.examples import show
    >>> show('bind_time_zone', '''
    ... SET 'table.local-time-zone' = 'Europe/Berlin';
    ... SELECT CURRENT_DATE AS d FROM t''')
    Project CURRENT_DATE() AS d
      Scan t (topic)
    -->
    Project CURRENT_DATE() AS d  [in time zone Europe/Berlin]
      Scan t (topic)
    """
    if context.zone == UTC:
        return transform_sink(sink, read_in_utc)

    def set_zone(node: LogicalPlan) -> LogicalPlan:
        return map_expressions(node, lambda e: with_zone(e, context.zone))

    return transform_sink(sink, set_zone)
