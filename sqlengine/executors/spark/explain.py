"""EXPLAIN for Spark: the stages of a plan, with what is read and written where, and the exchanges
between them. Pure; does not import Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import msgspec

from planner.graph.physical import PhysicalNode, PhysicalPlan
from planner.graph.rule_sets import RulesPlan
from planner.logical import LogicalPlan, Scan
from sqlengine.executors.spark.plan import CutPlan
from sqlengine.executors.spark.splits import READ_BY_TASKS
from sqlengine.executors.spark.worker import STATELESS
from sqlengine.system.words import count, seconds

Place: TypeAlias = Literal["tasks", "driver"]
# Options with which a table of a connector whose tables tasks can read has no end.
_WITHOUT_END: Final = ("source.monitor-interval", "source.follow")


class TableView(msgspec.Struct, frozen=True):
    """A table that is read or written, and `where`: in tasks or in the driver."""

    table: str
    where: Place


class ExchangeView(msgspec.Struct, frozen=True):
    """An exchange to a later `stage`, in front of `operation`: by `keys`, to one partition where
    there are none; None: rows stay in their partition."""

    stage: int
    operation: str
    keys: tuple[str, ...] | None


class OperatorView(msgspec.Struct, frozen=True):
    """An operator of a stage. `single`: it has no keys, and runs in one partition. `cpu_s`: its
    time in tasks since the graph was opened, with that for others that share it."""

    operation: str
    single: bool = False
    cpu_s: float | None = None


class StageView(msgspec.Struct, frozen=True):
    """A stage: what it reads and runs, with tables of its own (`state`) or none, and where the rows
    go from there. Its tasks are `partitions`; None where Spark decides."""

    stage: int
    state: bool
    reads: tuple[TableView, ...]
    operators: tuple[OperatorView, ...]
    exchanges: tuple[ExchangeView, ...]
    writes: tuple[TableView, ...]
    partitions: int | None = None


@dataclass(frozen=True)
class Running:
    """A plan that runs: the number of `partitions` of its last epoch, None before the first, the
    seconds of each node in tasks, and which scans tasks read."""

    partitions: int | None
    seconds: Mapping[str, float] = field(default_factory=dict)
    read_by_tasks: frozenset[str] = frozenset()


def stages_of(
    plan: PhysicalPlan, cut: CutPlan, job: str | None = None, running: Running | None = None
) -> list[StageView]:
    """Returns the stages of a plan, or what of them is of one job, in order. Where it is not
    `running` yet, the options of tables say who will read them."""
    ranks = {n.id: i for i, n in enumerate(plan.in_order)}
    before = {n.id: n for fragment in cut.sources.values() for n in fragment.nodes}
    all_nodes = [list(before.values()), *(list(fragment.nodes) for fragment in cut.keyed)]
    single = frozenset[str]().union(*(f.single for f in cut.keyed))
    stages = []
    for number, found in enumerate(all_nodes):
        nodes = [n for n in sorted(found, key=lambda n: ranks[n.id]) if job in (None, *n.jobs)]
        if nodes:
            exits = _exchanges(cut, number, {n.id for n in nodes}, plan, job)
            stages.append(
                StageView(
                    number,
                    any(isinstance(n.plan, LogicalPlan) and n.plan.stateful for n in nodes)
                    and number > STATELESS,
                    tuple(_reads(nodes, running)),
                    tuple(_operator(n, single, running) for n in nodes),
                    tuple(exits),
                    tuple(_writes(nodes, plan, job)),
                    None if running is None or number == STATELESS else running.partitions,
                )
            )
    return stages


def _reads(nodes: Iterable[PhysicalNode], running: Running | None) -> Iterator[TableView]:
    for node in nodes:
        if isinstance(node.plan, Scan):
            in_tasks = (
                _has_an_end(node.plan) if running is None else node.id in running.read_by_tasks
            )
            yield TableView(node.plan.table.display, "tasks" if in_tasks else "driver")


def _has_an_end(scan: Scan) -> bool:
    """True if tasks will read a table, as far as its options tell without opening it."""
    options = scan.table.options
    if scan.table.connector not in READ_BY_TASKS:
        return False
    if scan.table.connector == "jdbc":
        return "scan.partition.num" in options
    if scan.table.connector == "datagen":
        return "number-of-rows" in options or any(o.endswith(".end") for o in options)
    return not any(name in options for name in _WITHOUT_END)


def _operator(node: PhysicalNode, single: frozenset[str], running: Running | None) -> OperatorView:
    seconds = None if running is None else round(running.seconds.get(node.id, 0.0), 3)
    return OperatorView(operation_of(node.plan), node.id in single, seconds)


def operation_of(plan: LogicalPlan | RulesPlan) -> str:
    """Returns the operation of a node, with all that it does."""
    if isinstance(plan, RulesPlan):
        return f"Rules: {count(len(plan.rules), 'filter')}"
    return f"{type(plan).__name__} {plan.label}".rstrip()


def _exchanges(
    cut: CutPlan, stage: int, nodes: set[str], plan: PhysicalPlan, job: str | None
) -> Iterator[ExchangeView]:
    """Yields the exchanges that these nodes of a stage feed."""
    inputs = {port: at for fragment in cut.keyed for port, at in fragment.inputs.items()}
    fed = {(e.target, e.target_port) for n in nodes for e in plan.nodes[n].outgoing}
    for port, exchange in sorted(cut.exchange.items()):
        target = plan.nodes[inputs[port][0]]
        if exchange.source == stage and inputs[port] in fed and job in (None, *target.jobs):
            yield ExchangeView(exchange.target, _short(target), exchange.keys)


def _short(node: PhysicalNode) -> str:
    return "Rules" if isinstance(node.plan, RulesPlan) else type(node.plan).__name__


def _writes(
    nodes: Iterable[PhysicalNode], plan: PhysicalPlan, job: str | None
) -> Iterator[TableView]:
    targets = {e.target for n in nodes for e in n.outgoing if e.target in plan.sinks}
    for name in sorted(targets, key=lambda name: _sink_name(plan, name)):
        if job in (None, *plan.sinks[name].jobs):
            yield TableView(_sink_name(plan, name), "driver")


def _sink_name(plan: PhysicalPlan, name: str) -> str:
    table = plan.sinks[name].sink.table
    return "the result" if table is None else table.display


# ---- text ----------------------------------------------------------------------------------------


def stages_text(stages: Iterable[StageView]) -> str:
    """Returns the stages as people read them."""
    return "\n".join(line for stage in stages for line in _lines(stage))


def _lines(stage: StageView) -> Iterator[str]:
    yield f"stage {stage.stage}: {_tasks(stage)}"
    for table in stage.reads:
        yield f"  <- {table.table}, read by {_by(table)}"
    for operator in stage.operators:
        notes = ["in one partition"] * operator.single
        notes += [] if operator.cpu_s is None else [f"{seconds(operator.cpu_s)} of CPU"]
        yield f"  {operator.operation}" + (f"  [{', '.join(notes)}]" if notes else "")
    for exchange in stage.exchanges:
        yield f"  -> stage {exchange.stage}, {_by_keys(exchange)}: {exchange.operation}"
    for table in stage.writes:
        yield f"  -> {table.table}, written by {_by(table)}"


def _tasks(stage: StageView) -> str:
    if stage.stage == STATELESS:
        return "a task for each part of what is read"
    tasks = "a task for each partition"
    if stage.partitions is not None:
        tasks = f"{count(stage.partitions, 'task')}, one for each partition"
    return f"{tasks}, with its state in files" if stage.state else tasks


def _by(table: TableView) -> str:
    return "tasks" if table.where == "tasks" else "the driver"


def _by_keys(exchange: ExchangeView) -> str:
    if exchange.keys is None:
        return "in the same partition"
    return f"by {', '.join(exchange.keys)}" if exchange.keys else "all in one partition"
