"""Jobs that a recovery leaves out, as a source is away whose rows it has to read again (ADR 31).

What they had at the checkpoint of their graph is stored under a name of its own, with the epoch up
to which that graph has logged them. Opened under that name they are recovered as their graph was,
later and alone: the same epochs, by the same writer, so that sinks drop what they have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing
from typing import Final

import msgspec
import pyarrow as pa

from parser.errors import ServiceError, SqlError
from planner.graph.family_members import FAMILY
from planner.graph.physical import PhysicalPlan, sink_id
from planner.logical import Sink
from sqlengine.broker.base import Broker
from sqlengine.executors.dead_letters import DEAD_LETTERS
from sqlengine.executors.epochs import LoggedChange
from sqlengine.executors.failures import SourceAway
from sqlengine.executors.node_state.node_context import creation_version
from sqlengine.snapshots.checkpoints import Apart, CheckpointMetadata
from sqlengine.state.store import Loaded
from sqlengine.state.stores import CheckpointStores
from sqlengine.state.table import BUCKET, SEQUENCE, TableDelta

# The name of such a graph has the epoch, a number, and the graph where the jobs were. No job's name
# has an exclamation mark.
_NAME: Final = re.compile(r"apart-\d+\.\d+!(.+)")


def is_apart(name: str) -> bool:
    """True for the name of a graph of jobs that wait for a source."""
    return _NAME.fullmatch(name) is not None


def writer_of_graph(name: str) -> str:
    """Returns the graph as which a graph writes: that in which its jobs were, or itself."""
    found = _NAME.fullmatch(name)
    return name if found is None else found[1]


def last_letters(broker: Broker, graph: str) -> int:
    """Returns the last epoch of which a graph has written dead letters; 0 if there is none."""
    return broker.last_epoch(DEAD_LETTERS, 0, graph) or 0


class LeftOut:
    """The jobs that a recovery of one graph leaves out, by name, with the error of a source.

    `known`: for each the last epoch of which the dead letters were there."""

    def __init__(self) -> None:
        self.errors: dict[str, SqlError] = {}
        self._known: dict[str, int] = {}

    def add(self, away: SourceAway, known: int) -> None:
        """Leaves out the jobs of an error from now on. The error again if that changes nothing."""
        new = away.jobs - self.errors.keys()
        if not new:
            raise away
        cause = ServiceError(away.message, detail=away.detail, hint=away.hint)
        self.errors |= dict.fromkeys(new, cause)
        self._known |= dict.fromkeys(new, known)

    def known(self, names: Iterable[str]) -> int:
        """Returns the last epoch of which the dead letters of these jobs were there."""
        return min(self._known[name] for name in names if name in self._known)


class Absence:
    """Notes what one recovery learns of the jobs that it leaves out.

    `errors`: why each is left out. `versions`: the present one of each; `sinks`: the tables that
    these write to, by id; `former`: names of which they have taken over the state."""

    def __init__(self, left_out: LeftOut) -> None:
        self.errors = dict(left_out.errors)
        self._left_out = left_out
        self._versions: dict[str, int] = {}
        self._sinks: dict[str, set[str]] = {}
        self._former: dict[str, set[str]] = {}
        self._handovers: set[str] = set()

    def note(self, name: str, version: int, sinks: Iterable[Sink]) -> None:
        """Notes a version of such a job."""
        self._versions[name] = version
        written = {sink_id(s) for s in sinks if s.table is not None}
        self._sinks.setdefault(name, set()).update(written)

    def follow(self, change: LoggedChange) -> None:
        """Follows a change of the graph, before its jobs are noted: one that takes over the state
        of another is left out with it."""
        for new, old in change.renamed.items():
            if old in self.errors:
                self.errors.setdefault(new, self.errors[old])
            if new in self.errors:
                self._former[new] = {old, *self._former.pop(old, ())}
                self._sinks.setdefault(new, set()).update(self._sinks.get(old, ()))
        for name in (n for n, version in change.jobs.items() if not version):
            self._versions.pop(name, None)
            self._sinks.pop(name, None)
        if change.handover and self.errors.keys() & change.jobs.keys():
            self._handovers.add(change.handover)

    def require_apart(self, plan: PhysicalPlan) -> None:
        """SourceAway for jobs that write to a table of those that are left out: it knows one last
        epoch for all of them, of their graph."""
        for name, sinks in self._sinks.items():
            for sink in (plan.sinks[s] for s in sinks if s in plan.sinks):
                assert sink.sink.table is not None
                what = (
                    f"it writes to table '{sink.sink.table.display}' with job '{name}', which waits"
                )
                raise SourceAway(sink.jobs, ServiceError(what, detail=str(self.errors[name])))

    def store(
        self, stores: CheckpointStores, graph: str, loaded: Loaded | None, until: int
    ) -> dict[str, str]:
        """Stores what the jobs had at the checkpoint of their graph, if there is one, for the
        epochs behind it up to `until`. Returns the name for each."""
        kept: dict[str, str] = {}
        for number, group in enumerate(self._groups()):
            name = f"apart-{until}.{number}!{graph}"
            stores.remove(name)  # of a start that died
            position, tables = _part(graph, loaded, self._apart(group, until))
            with closing(stores.open(name)) as store:
                store.put(msgspec.to_builtins(position), tables)
            kept |= dict.fromkeys(group, name)
        return kept

    def _groups(self) -> Iterator[list[str]]:
        """Yields the jobs that are left out now, those together that share tables."""
        left = sorted(self._versions)
        while left:
            group, sinks = [left[0]], set(self._sinks[left[0]])
            while more := [n for n in left if n not in group and self._sinks[n] & sinks]:
                group += more
                sinks = sinks.union(*(self._sinks[n] for n in more))
            yield group
            left = [n for n in left if n not in group]

    def _apart(self, group: Collection[str], until: int) -> Apart:
        names = {*group, *(former for n in group for former in self._former.get(n, ()))}
        return Apart(
            {n: self._versions[n] for n in group},
            sorted(names),
            until,
            self._left_out.known(names),
            sorted(self._handovers),
        )


def stored_apart(stores: CheckpointStores, name: str) -> Apart | None:
    """Returns what is stored of jobs that wait; None where a start died before it was there."""
    with closing(stores.open(name)) as store:
        loaded = store.load()
    return None if loaded is None else _apart_in(_position(loaded))


def keep_waiting(stores: CheckpointStores, name: str, waiting: Collection[str]) -> None:
    """Takes jobs that do not wait any more out of what is stored: nobody wants their rows."""
    with closing(stores.open(name)) as store:
        loaded = store.load()
        if loaded is None:
            raise ServiceError(f"what graph '{name}' had is gone")
        position = _position(loaded)
        apart = _apart_in(position)
        gone = apart.jobs.keys() - waiting
        if gone:
            jobs = {n: v for n, v in apart.jobs.items() if n not in gone}
            names = [n for n in apart.names if n not in gone]
            apart = msgspec.structs.replace(apart, jobs=jobs, names=names)
            left = {n: v for n, v in position.jobs.items() if n not in gone}
            position = msgspec.structs.replace(position, jobs=left, apart=apart)
            store.put(msgspec.to_builtins(position), {})


def _position(loaded: Loaded) -> CheckpointMetadata:
    return msgspec.convert(loaded.position, CheckpointMetadata)


def _apart_in(position: CheckpointMetadata) -> Apart:
    assert position.apart is not None
    return position.apart


def _part(
    graph: str, loaded: Loaded | None, apart: Apart
) -> tuple[CheckpointMetadata, dict[str, TableDelta]]:
    """Returns the part of a checkpoint that belongs to jobs that are left out."""
    if loaded is None:
        return CheckpointMetadata(graph, 0, 0, 0, {}, [], [], {}, apart=apart), {}
    position = _position(loaded)
    stateful = {n: s for n, s in position.stateful.items() if n in apart.names}
    nodes = {node for own in stateful.values() for node, _ in own}
    others = {node for states in position.stateful.values() for node, _ in states} - nodes
    part = msgspec.structs.replace(
        position,
        jobs={n: v for n, v in position.jobs.items() if n in apart.names},
        stateful=stateful,
        unstarted=[v for v in position.unstarted if v in nodes],
        counts={n: c for n, c in position.counts.items() if n in apart.names},
        apart=apart,
    )
    # Also what belongs to no job, as watermarks do. Members of a family leave it when they come.
    tables = {
        name: _whole(rows)
        for name, rows in loaded.tables.items()
        if name.startswith(FAMILY) or creation_version(name)[0] not in others
    }
    return part, tables


def _whole(rows: pa.Table) -> TableDelta:
    batches = rows.combine_chunks().to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], rows.schema)
    # What is there first removes nothing.
    return TableDelta(batch, batch.slice(0, 0).select([SEQUENCE, BUCKET]), 0)
