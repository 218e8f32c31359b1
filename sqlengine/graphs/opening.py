"""Opens a graph: it is recovered, if need be without jobs that keep it from that."""

from __future__ import annotations

import logging
from collections.abc import Callable

from parser.errors import ExecutionError
from sqlengine.executors.failures import (
    JobsFailed,
    LastingFailure,
    OperatorFailed,
    SourceAway,
    StepEnded,
)
from sqlengine.executors.subtask import SubtaskContext
from sqlengine.graphs.apart import LeftOut, is_apart, last_letters
from sqlengine.graphs.departures import Departure
from sqlengine.graphs.host import Faults, GraphHost, PlanOf
from sqlengine.graphs.running import RunningGraph

log = logging.getLogger("sqlengine")


def open_graph(
    name: str,
    host: GraphHost,
    plan_of: PlanOf,
    without: Faults | None = None,
    subtask: Callable[[], SubtaskContext] | None = None,
    failed_epoch: int = 0,
) -> RunningGraph:
    """Opens and recovers a graph, without the jobs whose operators raise or take too long while
    recorded epochs are repeated, and without those that are removed meanwhile. `subtask` opens the
    context of each attempt, which closes it.

    Jobs that fail in an epoch (those of `without` in `failed_epoch`) are taken out just before it,
    with what they have, but not out of a subtask. Those whose sources are away while epochs are
    repeated are left out, and kept as they were at the checkpoint; SourceAway for a graph of such
    jobs, and for a subtask: others rely on its epochs, so that it waits as a whole."""
    faults = dict(without or {})
    departures: list[Departure] = []
    left_out = LeftOut()
    if failed_epoch and subtask is None:
        departures, faults = [Departure(failed_epoch, faults)], {}
    while True:
        try:
            context = None if subtask is None else subtask()
            graph = RunningGraph(name, host, plan_of, faults, context, departures, left_out)
            break
        except SourceAway as error:
            if is_apart(name) or subtask is not None:
                raise
            log.warning("graph %s is recovered without jobs that wait: %s", name, error)
            left_out.add(error, last_letters(host.broker, name))
        except (OperatorFailed, JobsFailed, StepEnded) as error:
            if not error.versions:
                raise
            log.error(
                "graph %s is recovered without the jobs %s: %s", name, sorted(error.jobs), error,
                exc_info=isinstance(error, OperatorFailed) and error.is_fault,
            )  # fmt: skip
            # Each round takes or leaves out at least one more job version, so that this ends.
            failed = not isinstance(error, StepEnded)
            kind = LastingFailure if failed and error.lasting else ExecutionError
            new = dict.fromkeys(error.versions, kind(str(error)))
            tried = {version for departure in departures for version in departure.faults}
            if failed and subtask is None and not new.keys() & tried:
                departures.append(Departure(error.epoch, new))
            else:
                departures = [d for d in departures if not d.faults.keys() & new.keys()]
                faults |= new
    not_back = faults or departures or graph.recovered.leaves_out or left_out.errors
    if not_back and not is_apart(name):
        # Of jobs that wait apart nothing is to be repeated here.
        graph.forget_lost_jobs()
    return graph
