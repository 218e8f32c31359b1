"""The analysis: ANALYSIS in the order in which its steps run, between binder and optimiser.

They give a bound plan its meaning over streams, or in batch mode; the optimiser keeps it."""

from __future__ import annotations

from typing import Protocol

from planner.analysis.bind_time_zone import bind_time_zone
from planner.analysis.configure_operators import configure_operators
from planner.analysis.context import AnalysisContext
from planner.analysis.deliver import deliver
from planner.analysis.fold_empty_aggregates import fold_empty_aggregates
from planner.analysis.recognize_top_n import recognize_top_n
from planner.analysis.route_late_rows import route_late_rows
from planner.analysis.suppress_alerts import suppress_alerts
from planner.analysis.unmark_one_step_windows import unmark_one_step_windows
from planner.analysis.use_final_results import use_final_results
from planner.logical import Sink
from planner.optimizer import NONE, Observe, check_schema


class AnalysisStep(Protocol):
    """A function from a bound statement to one of equal schema, which returns the same object when
    there is nothing to do. Its name is that of its module."""

    __name__: str

    def __call__(self, sink: Sink, context: AnalysisContext, /) -> Sink: ...


# What turns operations into others comes first, then parameters of operations. Delivery asks for
# the changes of the final plan; it adds operations, which are configured with all others.
ANALYSIS: tuple[AnalysisStep, ...] = (
    use_final_results,
    fold_empty_aggregates,
    recognize_top_n,
    suppress_alerts,
    bind_time_zone,
    unmark_one_step_windows,
    route_late_rows,
    deliver,
    configure_operators,
)


def analyze(
    sink: Sink,
    context: AnalysisContext,
    *,
    disabled: frozenset[str] = NONE,
    observe: Observe | None = None,
) -> Sink:
    """The statement after all steps but those named in `disabled`; `observe` sees each step's name
    and outcome. SqlError where a step refuses the statement."""
    for step in ANALYSIS:
        if step.__name__ in disabled:
            continue
        after = step(sink, context)
        check_schema(step.__name__, sink, after)
        if observe is not None:
            observe(step.__name__, after)
        sink = after
    return sink
