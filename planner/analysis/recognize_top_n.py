"""Top-N: a condition on the ROW_NUMBER of an OVER."""

from __future__ import annotations

from planner.analysis.context import AnalysisContext
from planner.analysis.top_n import rewrite_every_top_n
from planner.logical import Sink


def recognize_top_n(sink: Sink, context: AnalysisContext) -> Sink:
    """Replaces an OVER whose ROW_NUMBER is compared with a number by a `Rank`, and refuses every
    other OVER that streams have not (Flink: FlinkLogicalRankRule). In batch mode OVER itself runs
    at the end of input.

    >>> from planner.examples import show
    >>> show('recognize_top_n', '''
    ... SELECT a FROM (
    ...   SELECT *, ROW_NUMBER() OVER (PARTITION BY s ORDER BY a DESC) AS n FROM t
    ... ) WHERE n <= 3''')
    Filter (n <= 3)
      Project a, b, s, over$0 AS n
        Over ROW_NUMBER() AS over$0 OVER (PARTITION BY s ORDER BY a DESC RANGE UNBOUNDED PRECEDING)
          Scan t (topic)
    -->
    Project a, b, s, over$0 AS n
      Rank 1 to 3 of each s by a DESC AS over$0
        Scan t (topic)

    The binder recognises Top-N below joins, MATCH_RECOGNIZE and ORDER BY by itself
    (`planner.analysis.top_n`): which operation stands there depends on the changes of its input,
    and ranks within windows only add rows. SqlError for an OVER that is refused.
    """
    return sink if context.batch else rewrite_every_top_n(sink)
