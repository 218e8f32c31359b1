"""Recognises Top-N: a filter on the ROW_NUMBER of an OVER (Flink: FlinkLogicalRankRule; within
windows StreamPhysicalWindowRankRule). `recognize_top_n` has an example."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from parser.errors import PlanError, UnsupportedError
from parser.types import Root
from planner.analysis.stream_overs import check_overs, may_rank, overs
from planner.analysis.window_operations import as_window_rank
from planner.logical import Filter, LogicalPlan, Over, Project, Rank
from planner.passes.constant_folding import folded
from planner.passes.push_down_filter import push_down_filter
from planner.rewrite import conjunction, conjuncts, transform
from planner.scalar import Call, ColumnRef, Literal, Scalar, walk

P = TypeVar("P", bound=LogicalPlan)

_MOST = 2**31 - 1
_WHOLE = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_RANKING = ("ROW_NUMBER", "RANK", "DENSE_RANK")
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class _Bounds:
    """The ranks that conditions ask for, both ends included."""

    start: int = 1
    end: int = _MOST


def rewrite_every_top_n(plan: P) -> P:
    """Replaces every Top-N of a whole plan by a `Rank`. SqlError for an OVER that is no Top-N and
    that does not run over streams."""
    changed = rewrite_top_n(plan)
    if any(may_rank(over) for over in overs(changed)):
        # The condition may stand above a join, from where the optimiser would move it down.
        changed = rewrite_top_n(push_down_filter(plan))
    check_overs(changed)
    assert isinstance(changed, type(plan))
    return changed


def rewrite_top_n(plan: LogicalPlan) -> LogicalPlan:
    """Replaces every Top-N of a part of a plan by a `Rank`. The binder needs this where it decides
    by the changes of its input: a Top-N within windows only adds rows."""
    return transform(plan, _rewritten)


def _rewritten(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, Filter):
        return node
    compared = (c.name for p in conjuncts(node.predicate) for c in _columns(_positive(p)))
    for name in sorted(set(compared)):
        numbered = _numbered(node.input, name)
        if numbered is not None:
            return _as_rank(node, name, *numbered)
    return node


def _columns(part: Scalar) -> Iterable[ColumnRef]:
    """The columns that a comparison compares."""
    if isinstance(part, Call) and (part.function in _FLIPPED or part.function == "BETWEEN"):
        return (a for a in part.args if isinstance(a, ColumnRef))
    return ()


def _numbered(plan: LogicalPlan, column: str) -> tuple[Over, list[LogicalPlan]] | None:
    """The OVER whose only call is the ranking function that `column` forwards, and the projections
    and filters above it, outermost first; None where there is no such OVER."""
    chain: list[LogicalPlan] = []
    while isinstance(plan, Project | Filter):
        if isinstance(plan, Project):
            item = dict(plan.items).get(column)
            if not isinstance(item, ColumnRef):
                return None
            column = item.name
        chain.append(plan)
        (plan,) = plan.inputs
    if not isinstance(plan, Over) or len(plan.calls) > 1 or plan.calls[0].name != column:
        return None
    return (plan, chain) if plan.calls[0].function in _RANKING else None


def _as_rank(node: Filter, column: str, over: Over, chain: list[LogicalPlan]) -> LogicalPlan:
    """The filter with a `Rank` in place of the OVER, and without the conditions on the rank."""
    bounds, rest = _Bounds(), []
    for part in conjuncts(node.predicate):
        narrowed = _narrowed(bounds, _positive(part), column)
        if narrowed is None:
            rest.append(part)
        else:
            bounds = narrowed
    if bounds.end == _MOST:
        return _with_varying_end(node, column, over, chain)
    call = over.calls[0]
    if call.function != "ROW_NUMBER":
        message = f"Top-N by {call.function} is not supported"
        raise UnsupportedError(message, hint="use ROW_NUMBER()", position=over.position)
    _check_rank(over, bounds)
    start = max(bounds.start, 1)
    end = max(bounds.end, start - 1)  # an empty range of ranks: no row has one
    below = _by_number(over.input)
    rank = as_window_rank(Rank(below, over.partition, over.order, start, end, call.name))
    return _put_back(node, _with_number(rank), rest, chain)


def _put_back(
    node: Filter, plan: LogicalPlan, rest: list[Scalar], chain: list[LogicalPlan]
) -> LogicalPlan:
    """The filter with the other conditions over the chain over the ranks."""
    for above in reversed(chain):
        plan = above.with_inputs((plan,))
    return replace(node, input=plan, predicate=conjunction(rest)) if rest else plan


def _with_varying_end(
    node: Filter, column: str, over: Over, chain: list[LogicalPlan]
) -> LogicalPlan:
    """A `Rank` up to a column of the input, where no number bounds the ranks, too; not within
    windows, as in Flink (VariableRankRange)."""
    parts = conjuncts(node.predicate)
    ends = [(p, e) for p in parts if (e := _varying_end(_positive(p), column)) is not None]
    bounded = any(_narrowed(_Bounds(), _positive(p), column) is not None for p in parts)
    source = _below(chain, ends[0][1][0]) if len(ends) == 1 and not bounded else None
    plan = Rank(_by_number(over.input), over.partition, over.order, 1, _MOST, over.calls[0].name)
    windowed = type(as_window_rank(plan)) is not Rank
    if source not in over.input.schema.names or windowed or over.calls[0].function != "ROW_NUMBER":
        return node
    ((condition, (_, cut)),) = ends
    plan = replace(plan, end_column=source, end_cut=cut)
    return _put_back(node, plan, [p for p in parts if p is not condition], chain)


def _varying_end(part: Scalar, column: str) -> tuple[str, int] | None:
    """The integer column that bounds the ranks, and what is subtracted from it: 1 for `<`."""
    if not isinstance(part, Call) or part.function not in ("<", "<=", ">", ">="):
        return None
    left, right = part.args if part.function in ("<", "<=") else reversed(part.args)
    while isinstance(right, Call) and right.function == "CAST" and right.type.root in _WHOLE:
        (right,) = right.args
    if not _is(left, column) or not isinstance(right, ColumnRef) or right.type.root not in _WHOLE:
        return None
    return right.name, int(len(part.function) == 1)


def _below(chain: list[LogicalPlan], column: str) -> str | None:
    """The name of the column below a chain of projections and filters; None where one of them
    computes it."""
    for node in chain:
        item = dict(node.items).get(column) if isinstance(node, Project) else None
        if isinstance(node, Project) and not isinstance(item, ColumnRef):
            return None
        column = item.name if isinstance(item, ColumnRef) else column
    return column


def _positive(part: Scalar) -> Scalar:
    """NOT of a comparison as the opposite comparison, which is equal as a rank is never NULL."""
    if not isinstance(part, Call) or part.function != "NOT" or not isinstance(part.args[0], Call):
        return part
    inner = part.args[0]
    return replace(inner, function=_NEGATED[inner.function]) if inner.function in _NEGATED else part


def _check_rank(over: Over, bounds: _Bounds) -> None:
    """PlanError for ranks below 1, and for an order by constants."""
    if bounds.end < 1:
        detail = f"the condition wants ranks up to {bounds.end}"
        raise PlanError("ranks are numbers from 1 on", detail=detail, position=over.position)
    below = dict(over.input.items) if isinstance(over.input, Project) else {}
    if all(isinstance(below.get(k.column), Literal) for k in over.order):
        hint = "order by a column, or use LIMIT for any rows"
        raise PlanError(
            "ROW_NUMBER over a stream needs ORDER BY with a column",
            hint=hint,
            position=over.position,
        )


def _by_number(plan: LogicalPlan) -> LogicalPlan:
    """The input of a rank; another rank right below keeps emitting its numbers, as in Flink, whose
    OVER takes all columns there."""
    if isinstance(plan, Project) and all(isinstance(e, ColumnRef) for _, e in plan.items):
        return plan.with_inputs((_by_number(plan.input),))
    numbered = type(plan) is Rank and plan.rank_name is not None
    return replace(plan, keeps_name=True) if isinstance(plan, Rank) and numbered else plan


def _with_number(rank: Rank) -> LogicalPlan:
    """The rank; with a single wanted number, a projection that adds the number as a constant, so
    that the rank emits no update when it alone changes."""
    if type(rank) is not Rank or rank.start != rank.end or rank.rank_name is None:
        return rank
    bare = replace(rank, rank_name=None)
    own = [(c.name, ColumnRef(c.name, c.type)) for c in bare.schema]
    number = Literal(rank.start, rank.schema.type(rank.rank_name))
    return Project(bare, (*own, (rank.rank_name, number)))


def _narrowed(bounds: _Bounds, part: Scalar, column: str) -> _Bounds | None:
    """The bounds with one more condition; None if the condition is not on the rank."""
    if not isinstance(part, Call):
        return None
    if part.function == "BETWEEN":
        low, high = map(_number, part.args[1:])
        if not _is(part.args[0], column) or low is None or high is None:
            return None
        return _Bounds(max(bounds.start, low), min(bounds.end, high))
    if part.function not in _FLIPPED or len(part.args) != 2:
        return None
    left, right = part.args
    operator = part.function if _is(left, column) else _FLIPPED[part.function]
    number = _number(right) if _is(left, column) else _number(left)
    if number is None or not (_is(left, column) or _is(right, column)):
        return None
    start, end = {
        "<": (1, number - 1),
        "<=": (1, number),
        ">": (number + 1, _MOST),
        ">=": (number, _MOST),
        "=": (number, number),
    }[operator]
    return _Bounds(max(bounds.start, start), min(bounds.end, end))


def _is(value: Scalar, column: str) -> bool:
    """True for the column, perhaps cast to a wider type."""
    while isinstance(value, Call) and value.function == "CAST":
        (value,) = value.args
    return isinstance(value, ColumnRef) and value.name == column


def _number(value: Scalar) -> int | None:
    """The value of a constant integer expression; None for any other."""
    if not isinstance(value, Literal) and not any(isinstance(n, ColumnRef) for n in walk(value)):
        value = folded(value)
    while isinstance(value, Call) and value.function == "CAST":
        (value,) = value.args
    return value.value if isinstance(value, Literal) and isinstance(value.value, int) else None
