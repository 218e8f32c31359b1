"""The driver's knowledge of the state that tasks keep: where it is, and what the next epoch adds to
it or calls by another name."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Final

import msgspec
import pyarrow as pa

from parser.types import Schema
from planner.graph.physical import PhysicalPlan
from planner.logical import AssignWatermark, Scan, Union
from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK, Batch, empty, log_of
from sqlengine.executors.node_state.node_context import creation_version, local_name
from sqlengine.executors.spark.plan import CutPlan, clocks_of
from sqlengine.executors.spark.splits import log_name
from sqlengine.executors.spark.state_files import all_tables, create
from sqlengine.executors.spark.tasks.state import TaskState
from sqlengine.executors.spark.worker import STATELESS, Exchange, Step
from sqlengine.executors.wire import StateFile, decode_batch, encode_batch, encode_state
from sqlengine.operators.ports import WATERMARKS, combined
from sqlengine.operators.scan import raw_schema
from sqlengine.operators.watermark import Times, decode_times, encode_times
from sqlengine.state.table import KeyedTable

Tables = Mapping[str, pa.Table]
# The columns of a tick.
_RAW: Final = raw_schema(Schema(()))


class KeptState:
    """The state of one graph in `folder` (a URI). `ticks`: those that begin the next epoch."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._at = TaskState()
        self._logs: dict[str, dict[str, None]] = {}  # by source, in order of appearance
        self.ticks: list[tuple[str, Batch]] = []
        self._read: tuple[TaskState, Tables] | None = None

    # ---- epochs ----------------------------------------------------------------------------------

    def now(self) -> TaskState:
        """Returns where the state is, and what the next epoch has to do."""
        ticks = [(node, encode_batch(batch)) for node, batch in self.ticks]
        return _replaced(
            self._at, logs={s: list(logs) for s, logs in self._logs.items()}, ticks=ticks
        )

    def before(self) -> TaskState:
        """Returns what tasks have to know of it."""
        return self._at

    def restore(self, state: TaskState, nodes: Container[str]) -> None:
        """Goes on with the state of a checkpoint, whose plan has these nodes: a recovery may leave
        out jobs."""
        self._at = _replaced(state, logs={}, ticks=[])
        self._logs = {s: dict.fromkeys(logs) for s, logs in state.logs.items() if s in nodes}
        self.ticks = [(node, decode_batch(data)) for node, data in state.ticks if node in nodes]

    def advance(self, step: Step, stages: int, oldest: int | None) -> None:
        """Notes that an epoch is complete, which needs files of epochs from `oldest` on."""
        oldest = step.epoch if oldest is None else oldest
        self._at = TaskState(step.epoch, step.digest, step.partitions, stages, oldest=oldest)
        self.ticks, self._read = [], None

    def know(self, source: str, shard: str) -> None:
        """Notes a shard of which something was read."""
        self._logs.setdefault(source, {})[log_of(shard)] = None

    def logs_of(self, source: str) -> Collection[str]:
        """Returns the logs of a source; one without a name where there are none, to carry time."""
        return self._logs.get(source) or {"": None}

    # ---- changes of the plan ---------------------------------------------------------------------

    def switch(
        self,
        old: CutPlan | None,
        new: CutPlan,
        before: PhysicalPlan,
        plan: PhysicalPlan,
        inherited: Mapping[str, str],
    ) -> bool:
        """Switches to another plan. What stands behind equal clocks, or heirs of them, knows their
        time already; where nothing does, it has to wait for each shard that was read before, and
        the result is True: the next epoch must say which sources have ended."""
        self._continue(before, plan, inherited)
        self._logs = {s: logs for s, logs in self._logs.items() if s in plan.nodes}
        self.ticks = [(node, tick) for node, tick in self.ticks if node in plan.nodes]
        known = {e.times for e in _timed(old)}
        by_clocks = {e.clocks: e.times for e in _timed(old)}
        begun: set[str] = set()
        for exchange in _timed(new):
            if exchange.times in known:
                continue
            clocks = tuple(sorted(inherited.get(c, c) for c in exchange.clocks))
            if clocks in by_clocks:
                self._rename(_times_table(exchange), f"{by_clocks[clocks]}/{WATERMARKS}")
            else:
                begun |= {scan_of(plan, c) for c in exchange.clocks if _reads(plan, c)}
        for scan in sorted(begun & self._logs.keys()):
            rows = empty(_RAW)
            self.ticks += [(scan, replace(rows, origin=log)) for log in self._logs[scan]]
        return bool(begun & self._logs.keys())

    def _continue(
        self, before: PhysicalPlan, plan: PhysicalPlan, inherited: Mapping[str, str]
    ) -> None:
        """Lets the scans of heirs that assign watermarks go on with the logs of the others."""
        for new, old in inherited.items():
            if isinstance(plan.nodes[new].plan, AssignWatermark):
                scan, last = scan_of(plan, new), scan_of(before, old)
                if scan != last:
                    # Several changes may come before an epoch: the files have the first names.
                    known = self._at.scans.items()
                    scans = {first: scan if s == last else s for first, s in known}
                    self._at = _replaced(self._at, scans={last: scan, **scans})
                    self._logs[scan] = {**self._logs.get(last, {}), **self._logs.get(scan, {})}

    def inherit(self, heir: Iterable[str], names: Iterable[str]) -> None:
        """Lets the tables of a node take over those of another, by the operator's names."""
        old = {local_name(name): name for name in names}
        for name in heir:
            if local_name(name) in old:
                self._rename(name, old[local_name(name)])

    def _rename(self, new: str, old: str) -> None:
        renamed = {**self._at.renamed, new: self._at.renamed.get(old, old)}
        self._at = _replaced(self._at, renamed=renamed)

    def seed(
        self, tables: Tables, shells: Mapping[str, KeyedTable], cut: CutPlan, plan: PhysicalPlan
    ) -> None:
        """Hands tables that a job brings, by their full names, to the tasks of its nodes."""
        keyed = {node.id for fragment in cut.keyed for node in fragment.nodes}
        own = {n: rows for n, rows in tables.items() if creation_version(n)[0] in keyed}
        shared = {n: rows for n, rows in own.items() if shells[n].everywhere}
        clocks = {creation_version(n)[0]: rows for n, rows in tables.items() if n not in own}
        for clock in (c for c in clocks if isinstance(plan.nodes[c].plan, AssignWatermark)):
            for shard in decode_times(clocks[clock]).keys() - {None}:
                self.know(scan_of(plan, clock), str(shard))  # to end its time with its source
        for exchange in _timed(cut):
            times = [_of_graph(plan, c, clocks[c]) for c in exchange.clocks if c in clocks]
            if times and len(times) == len(exchange.clocks):
                shared[_times_table(exchange)] = encode_times(_combined(times))
        if own or shared:
            rest = {n: rows for n, rows in own.items() if n not in shared}
            path = f"{self._folder}/seeds/{self._at.epoch:012}-{token_hex(4)}.state"
            create(path, encode_state(StateFile(rest, shared)))
            self._at = _replaced(self._at, seeds=[*self._at.seeds, path])

    # ---- reading ---------------------------------------------------------------------------------

    def tables(self) -> Tables:
        """Returns all tables by their full names, and the times behind each exchange. Reads files;
        what was read is known until the next epoch."""
        if self._read is None or self._read[0] != self._at:
            self._read = self._at, all_tables(self._folder, self._at)
        return self._read[1]

    def times_before(self, node: str, cut: CutPlan, plan: PhysicalPlan) -> pa.Table | None:
        """Returns the watermarks of a node before an exchange, as it would keep them itself: one
        that assigns them, or a union. None for others, and where nothing behind an exchange depends
        on it."""
        kind = plan.nodes[node].plan
        if isinstance(kind, AssignWatermark):
            times = self._clock(node, cut, plan)
            return None if times is None else encode_times(times)
        if not isinstance(kind, Union) or node not in _before_exchanges(cut):
            return None
        clocks, ports = clocks_of(plan), dict[int, int]()
        for before in plan.in_order:
            for edge in before.outgoing:
                if edge.target == node:
                    reached = self._reached(clocks[before.id], cut, plan)
                    if reached is None:
                        return None
                    ports[edge.target_port] = reached
        return combined(ports)

    def _reached(self, clocks: Collection[str], cut: CutPlan, plan: PhysicalPlan) -> int | None:
        """Returns the least watermark (ms) of these clocks; None where it is not known."""
        times = [self._clock(c, cut, plan) for c in clocks if _reads(plan, c)]
        if any(t is None for t in times):
            return None
        return min((_all_of(t)[None][0] for t in times if t is not None), default=MAX_WATERMARK)

    def _clock(self, node: str, cut: CutPlan, plan: PhysicalPlan) -> Times | None:
        known = self.tables()
        for exchange in _timed(cut):
            rows = known.get(_times_table(exchange))
            if node in exchange.clocks and rows is not None:
                return _of_scan(decode_times(rows), scan_of(plan, node))
        return None


def times_of(
    told: Mapping[str, Mapping[str, tuple[int, int]]], cut: CutPlan, plan: PhysicalPlan
) -> dict[str, Times]:
    """Returns the watermarks of each node that assigns them, from what tasks have told."""
    found: dict[str, Times] = {}
    for exchange in _timed(cut):
        rows = {shard or None: row for shard, row in told.get(exchange.times, {}).items()}
        for node in exchange.clocks if rows else ():
            if isinstance(plan.nodes[node].plan, AssignWatermark):
                found[node] = _of_scan(rows, scan_of(plan, node))
    return found


def _before_exchanges(cut: CutPlan) -> set[str]:
    return {node.id for fragment in cut.sources.values() for node in fragment.nodes}


def _reads(plan: PhysicalPlan, clock: str) -> bool:
    return isinstance(plan.nodes[clock].plan, Scan | AssignWatermark)


def _replaced(state: TaskState, **changes: object) -> TaskState:
    return msgspec.structs.replace(state, **changes)


def _timed(cut: CutPlan | None) -> Iterator[Exchange]:
    exchanges = () if cut is None else cut.exchange.values()
    return (e for e in exchanges if e.source == STATELESS)


def _times_table(exchange: Exchange) -> str:
    return f"{exchange.times}/{WATERMARKS}"


def _of_graph(plan: PhysicalPlan, node: str, dump: pa.Table) -> Times:
    """Returns the watermarks that a node has assigned, with shards named over all sources."""
    scan = scan_of(plan, node)
    return {s if s is None else log_name(scan, s): t for s, t in decode_times(dump).items()}


def _of_scan(times: Times, scan: str) -> Times:
    """Returns the watermarks of one scan, with its own names of shards."""
    prefix = f"{scan}/"
    own: Times = {
        s.removeprefix(prefix): t
        for s, t in times.items()
        if s is not None and s.startswith(prefix)
    }
    return {**own, **_all_of(times if len(own) == len(times) - 1 else own)}


def _combined(parts: Iterable[Times]) -> Times:
    """Returns the watermarks of several nodes together, each of which may hold back the others."""
    parts = list(parts)
    least = [t for part in parts for s, t in _all_of(part).items()]
    shards: Times = {s: t for part in parts for s, t in part.items() if s is not None}
    return {**shards, None: min(least)}


def _all_of(times: Times) -> Times:
    known = times.get(None)
    return {None: known or min(times.values(), default=(MIN_WATERMARK, 0))}


def scan_of(plan: PhysicalPlan, node: str) -> str:
    """Returns the scan from which a node that assigns watermarks gets its rows."""
    graph = plan.graph.nodes
    while not isinstance(graph[node].plan, Scan):
        (node,) = graph[node].inputs
    return node
