"""The jobs that the recovery of a graph brings back, and what becomes of those that it does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from parser.errors import SqlError
from sqlengine.executors.epochs import LoggedChange
from sqlengine.executors.runner import GraphRunner
from sqlengine.graphs.apart import Absence, LeftOut
from sqlengine.graphs.departures import Departure
from sqlengine.graphs.host import Faults, GraphHost, PlanOf
from sqlengine.jobs.planning import PlannedJob
from sqlengine.snapshots.checkpoints import Apart
from sqlengine.state.store import CheckpointStore

# Job versions that a subtask leaves out, each with the last version of the graph for which that
# counts, and why.
Asked = Mapping[tuple[str, int], tuple[int, SqlError]]


class RecoveredJobs:
    """Plans the jobs of one graph while it is recovered.

    Not brought back are those `without`, those whose `departures` come, those of `left_out`, which
    wait for a source, and those that a subtask is `asked` to leave out. `apart`: what is known of
    the graph if its jobs waited for a source.

    `lost`: jobs that ran and were not brought back, or that cannot be planned any more, with the
    error. `leaves_out`: some were left out that were asked for."""

    def __init__(
        self,
        plan_of: PlanOf,
        without: Faults,
        departures: Sequence[Departure],
        left_out: LeftOut,
        asked: Asked,
        apart: Apart | None,
    ) -> None:
        self.lost: dict[str, SqlError] = {}
        self.leaves_out = False
        self._plan_of = plan_of
        self._without = dict(without)
        self._departures = list(departures)
        self._absence = Absence(left_out)
        self._asked = asked
        self._apart = apart
        self._kept: dict[str, str] = {}

    def take_kept(self) -> dict[str, str]:
        """Returns the keys under which lost jobs have left what they had, once."""
        kept, self._kept = self._kept, {}
        return kept

    def plans(self, jobs: Mapping[str, int], version: int) -> dict[str, PlannedJob]:
        """Returns the plans of jobs in a version of the graph; those without one are lost."""
        known = jobs if self._apart is None else [n for n in jobs if n in self._apart.names]
        found = {**self._plan_of({n: jobs[n] for n in known})}
        faulty = {n: self._without[n, v] for n, v in jobs.items() if (n, v) in self._without}
        faulty |= self._asked_to_leave(jobs, version)
        for name in [n for n in known if n in self._absence.errors]:
            plan = found[name]
            self._absence.note(name, jobs[name], plan.sinks if isinstance(plan, PlannedJob) else ())
            faulty[name] = self._absence.errors[name]
        plans = {}
        for name, plan in {**found, **faulty}.items():
            self.lost.pop(name, None)
            if isinstance(plan, PlannedJob):
                plans[name] = plan
            else:
                self.lost[name] = plan
        return plans

    def _asked_to_leave(self, jobs: Mapping[str, int], version: int) -> dict[str, SqlError]:
        asked = {n: self._asked[n, v] for n, v in jobs.items() if (n, v) in self._asked}
        left_out = {n: error for n, (until, error) in asked.items() if version <= until}
        self.leaves_out |= bool(left_out)
        return left_out

    def plans_of_change(self, change: LoggedChange) -> dict[str, PlannedJob]:
        """Returns the plans of the jobs that a logged change adds or replaces; those without one
        are lost, and those that it removes no longer are."""
        self._absence.follow(change)
        plans = self.plans({n: v for n, v in change.jobs.items() if v}, change.version)
        for name in [n for n, v in change.jobs.items() if not v]:
            self.lost.pop(name, None)
        return plans

    def leave_before(self, epoch: int, runner: GraphRunner, host: GraphHost) -> None:
        """Takes out the jobs that fail in the epoch that is repeated next."""
        self._absence.require_apart(runner.executor.plan)
        self._take_out([d for d in self._departures if d.epoch == epoch], runner, host)

    def leave_at_end(self, runner: GraphRunner, host: GraphHost) -> None:
        """Takes out the other jobs that fail: where epochs are not logged, theirs did not come."""
        self._take_out(list(self._departures), runner, host)
        self._absence.require_apart(runner.executor.plan)

    def _take_out(
        self, departures: Iterable[Departure], runner: GraphRunner, host: GraphHost
    ) -> None:
        for departure in departures:
            self._departures.remove(departure)
            kept = departure.take_out(runner, host)
            self._kept |= {name: key for name, key in kept.items() if key}
            self._without |= departure.faults
            self.lost |= {n: e for (n, _), e in departure.faults.items() if n in kept}

    def store_left_out(
        self, host: GraphHost, graph: str, store: CheckpointStore, until: int
    ) -> None:
        """Stores what the jobs had that wait for a source, for the epochs up to `until`."""
        if self._absence.errors:
            self._kept |= self._absence.store(host.stores, graph, store.load(), until)
