"""What a plan says of itself: whether its result may depend on the order in which rows of several
shards come, or on the processing time. What is said here is never too little: where nothing is
known, the result may."""

from __future__ import annotations

from collections.abc import Container, Iterator

from parser.types import DataType, Root
from planner.analysis.sums import own_name
from planner.graph.chunked import Chunked
from planner.graph.merge import Graph, merge
from planner.graph.required_columns import required
from planner.logical import (
    AssignWatermark,
    Constrain,
    DropUpdateBefore,
    Filter,
    GroupAggregate,
    IntervalJoin,
    Join,
    LogicalPlan,
    LookupJoin,
    Materialize,
    Over,
    Project,
    Rank,
    Scan,
    SessionAssign,
    SetOperation,
    Sink,
    Stateful,
    TableFunction,
    TemporalJoin,
    TemporalSort,
    Union,
    Values,
    WindowAggregate,
    WindowAssign,
    WindowJoin,
    WindowRank,
    time_origin,
)
from planner.logical.windows import AggregateCall, EmittingAggregate
from planner.scalar import is_deterministic
from udf.aggregates.registry import BUFFERED

# Sums, counts and extremes of these are the same in any order; those of binary fractions are
# rounded at each step.
_INEXACT = (Root.FLOAT, Root.DOUBLE)
# Not COLLECT: values that share a slot of Java's table keep the order in which they came.
_UNORDERED = frozenset({"COUNT", "SUM", "SUM0", "AVG", "MIN", "MAX"})
# What gives the same, or the same in the end, in any order.
_PLAIN = (
    *(
        Values,
        Filter,
        Project,
        TableFunction,
        Union,
        Sink,
        Constrain,
        DropUpdateBefore,
        AssignWatermark,
        WindowAssign,
    ),
    *(Join, IntervalJoin, WindowJoin, SessionAssign, TemporalSort, SetOperation, Materialize),
)
# What takes rows whatever time they have.
_WITHOUT_TIME = (GroupAggregate, Join, SetOperation, Materialize)


def nodes_of(plan: LogicalPlan) -> Iterator[LogicalPlan]:
    """All operations, each once."""
    seen: set[int] = set()
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += node.inputs


def keyed(plan: LogicalPlan) -> bool:
    """Whether rows come together by keys somewhere."""
    return any(isinstance(n, Stateful) for n in nodes_of(plan))


def asks_the_clock(sink: Sink) -> str:
    """Why another run gives other rows, ''  where it gives the same: processing time, chance, or
    time that passes."""
    return next((why for node, read in _with_reads(sink) if (why := _clock(node, read))), "")


def goes_by_event_time(sink: Sink) -> bool:
    """Whether anybody reads a column with a watermark: rows may be late."""
    return any(
        isinstance(n, AssignWatermark) and n.watermark.column in read
        for n, read in _with_reads(sink)
    )


def judges_what_was_handed_on(sink: Sink) -> bool:
    """Whether rows that came together by keys go to an operation that goes by their time, or both
    sides of a table joined with itself. Which of them are late depends on how far several instances
    are from each other."""
    timed = [
        n for n in nodes_of(sink) if isinstance(n, Stateful) and not isinstance(n, _WITHOUT_TIME)
    ]
    return any(keyed(i) for node in timed for i in node.inputs) or any(map(_of_one_table, timed))


def _of_one_table(node: LogicalPlan) -> bool:
    return isinstance(node, IntervalJoin) and len({time_origin(i) for i in node.inputs}) == 1


def _with_reads(sink: Sink) -> Iterator[tuple[LogicalPlan, Container[str]]]:
    """All operations, and which of its columns anybody reads."""
    graph = merge(Graph(), {sink.job: (sink,)})
    reads = required(graph, graph.nodes, Graph(), Chunked())
    return ((node.plan, reads.get(name, {})) for name, node in graph.nodes.items())


def _clock(node: LogicalPlan, read: Container[str]) -> str:
    if isinstance(node, Scan) and node.table.connector == "datagen":
        return "its rows come with time"
    told = node.expressions
    if isinstance(node, Project):
        told = tuple(e for name, e in zip(node.schema.names, told, strict=True) if name in read)
    if not all(map(is_deterministic, told)):
        return "asks for the time or for chance"
    if isinstance(node, Stateful) and node.ttl_ms:
        return "forgets after some time"
    if isinstance(node, AssignWatermark) and node.idle_ms:
        return "waits for silent shards only so long"
    if isinstance(node, AssignWatermark) and node.interval_ms:
        return "tells its watermark at intervals"
    return "asks for the watermark" if "CURRENT_WATERMARK" in node.functions else ""


def asks_for_order(plan: LogicalPlan) -> str:
    """Which operation may give something else where rows come in another order (of shards, or of
    keys), '' if none."""
    return next((f"{type(n).__name__}: {why}" for n in nodes_of(plan) if (why := _asks(n))), "")


def scrambles(plan: LogicalPlan) -> str:
    """Which operation goes by the order of rows that come from several instances, where those of
    other keys are in no order among each other; '' if none does."""
    goes_by_order = (GroupAggregate, WindowAggregate, Rank, WindowRank)
    for node in nodes_of(plan):
        if (
            isinstance(node, goes_by_order)
            and any(map(keyed, node.inputs))
            and (why := _asks(node))
        ):
            return f"{type(node).__name__} of what other keys brought together: {why}"
        if (
            isinstance(node, WindowAggregate)
            and node.keys
            and any(f.endswith(BUFFERED) for f in node.functions)
        ):
            return "WindowAggregate: DISTINCT values go on where a window of any key is over"
    return ""


def _asks(node: LogicalPlan) -> str:
    match node:
        case Scan():
            return _scan(node)
        case Sink() if node.table is not None and node.input.changes:
            return "each change is written"
        case EmittingAggregate():
            return "what is told early depends on what has come"
        case GroupAggregate() | WindowAggregate():
            return next(
                (f"{c.function} goes by order" for c in node.aggregates if not _unordered(c)), ""
            )
        case Rank() | WindowRank():
            return _rank(node, node.partition, [k.column for k in node.order], node.rank_name)
        case Over():
            return _over(node)
        case Materialize() if node.start != 1 or node.end is not None:
            return _rank(node, (), [k.column for k in node.order], None)
        case IntervalJoin() if node.proctime:
            return "goes by processing time"
        case TemporalJoin() | LookupJoin():
            return "the versions of a row are known in the order in which they come"
    return "" if isinstance(node, _PLAIN) else "goes by order"


def _scan(node: Scan) -> str:
    if node.changes:
        return "changes of a row are in one shard"
    if node.table.connector != "filesystem":
        return f"connector {node.table.connector} has no shards of lines"
    return "tells where a row was" if node.table.metadata else ""


def _unordered(call: AggregateCall) -> bool:
    function = own_name(call.function.removesuffix(" DISTINCT"))
    if function not in _UNORDERED:
        return False
    return function == "COUNT" or call.argument_type is None or not _inexact(call.argument_type)


def _inexact(kind: DataType) -> bool:
    return kind.root in _INEXACT or any(map(_inexact, kind.children))


def _rank(node: LogicalPlan, partition: tuple[str, ...], order: list[str], rank: str | None) -> str:
    """Rows that are equal in the order change places without anybody seeing it where nothing else
    is in them; with a key among the columns of the order there are none."""
    (below,) = node.inputs
    told = {*partition, *order}
    if set(below.schema.names) <= told or any(key <= told for key in below.upsert_keys):
        return ""
    return "of rows that are equal in its order the first counts"


def _over(node: Over) -> str:
    if node.frame.is_rows or any(node.input.schema.type(k.column).is_proctime for k in node.order):
        return "goes by rows, not by their order"
    for call in node.calls:
        exact = call.argument_type is None or not _inexact(call.argument_type)
        if not (call.function == "COUNT" or (call.function in _UNORDERED and exact)):
            return f"{call.function} goes by order"
    return ""
