"""Recognises Top-N: a filter on the ROW_NUMBER of an OVER, which as such streams have only for
time.

SELECT … FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM t) WHERE n <=
3 AND v > 0

Filter (n <= 3 AND v > 0)                 Filter (v > 0)
  Project …, over$0 AS n                    Project …, over$0 AS n
    Over ROW_NUMBER() AS over$0 …             Rank 1 to 3 of each k by v DESC AS over$0
      Scan t                                    Scan t
"""

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
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True)
class _Bounds:
    """Wanted ranks."""

    start: int = 1
    end: int = _MOST


def rewrite_every_top_n(plan: P) -> P:
    """The whole plan with every Top-N as a `Rank`. SqlError for an OVER that is none and that
    streams have not."""
    changed = rewrite_top_n(plan)
    if any(may_rank(over) for over in overs(changed)):  # its condition may stand above a join
        changed = rewrite_top_n(push_down_filter(plan))
    check_overs(changed)
    assert isinstance(changed, type(plan))
    return changed


def rewrite_top_n(plan: LogicalPlan) -> LogicalPlan:
    """The part of a plan with every Top-N in it as a `Rank`: those within windows give rows that
    only come."""
    return transform(plan, _rewritten)


def _rewritten(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, Filter):
        return node
    for name in sorted(
        {c.name for part in conjuncts(node.predicate) for c in _columns(_positive(part))}
    ):
        found = _numbered(node.input, name)
        if found is not None:
            over, chain = found
            return _as_rank(node, name, over, chain)
    return node


def _columns(part: Scalar) -> Iterable[ColumnRef]:
    if isinstance(part, Call) and (part.function in _FLIPPED or part.function == "BETWEEN"):
        return (a for a in part.args if isinstance(a, ColumnRef))
    return ()


def _numbered(plan: LogicalPlan, column: str) -> tuple[Over, list[LogicalPlan]] | None:
    """The OVER whose only call is the ROW_NUMBER that `column` is, and what lies above it,
    outermost first."""
    chain: list[LogicalPlan] = []
    while isinstance(plan, Project | Filter):
        if isinstance(plan, Project):
            item = dict(plan.items).get(column)
            if not isinstance(item, ColumnRef):
                return None
            column = item.name
        chain.append(plan)
        (plan,) = plan.inputs
    if isinstance(plan, Over) and len(plan.calls) == 1 and plan.calls[0].name == column:
        return (
            (plan, chain)
            if plan.calls[0].function in ("ROW_NUMBER", "RANK", "DENSE_RANK")
            else None
        )
    return None


def _as_rank(node: Filter, column: str, over: Over, chain: list[LogicalPlan]) -> LogicalPlan:
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
        hint = "use ROW_NUMBER()"
        raise UnsupportedError(
            f"Top-N by {call.function} is not supported", hint=hint, position=over.position
        )
    _check_rank(over, bounds)
    start = max(bounds.start, 1)
    plan = _with_number(
        as_window_rank(
            Rank(
                _by_number(over.input),
                over.partition,
                over.order,
                start,
                max(bounds.end, start - 1),
                call.name,
            )
        )
    )
    return _put_back(node, plan, rest, chain)


def _put_back(
    node: Filter, plan: LogicalPlan, rest: list[Scalar], chain: list[LogicalPlan]
) -> LogicalPlan:
    """The ranks below what lay above the OVER, and the conditions that say nothing of them."""
    for above in reversed(chain):
        plan = above.with_inputs((plan,))
    return replace(node, input=plan, predicate=conjunction(rest)) if rest else plan


def _with_varying_end(
    node: Filter, column: str, over: Over, chain: list[LogicalPlan]
) -> LogicalPlan:
    """Ranks up to a column of the input, where no number bounds them, too; not within windows, as
    in Flink."""
    parts = conjuncts(node.predicate)
    found = [(p, e) for p in parts if (e := _varying_end(_positive(p), column)) is not None]
    bounded = any(_narrowed(_Bounds(), _positive(p), column) is not None for p in parts)
    source = _below(chain, found[0][1][0]) if len(found) == 1 and not bounded else None
    plan = Rank(_by_number(over.input), over.partition, over.order, 1, _MOST, over.calls[0].name)
    windowed = type(as_window_rank(plan)) is not Rank
    if source not in over.input.schema.names or windowed or over.calls[0].function != "ROW_NUMBER":
        return node
    ((condition, (_, cut)),) = found
    plan = replace(plan, end_column=source, end_cut=cut)
    return _put_back(node, plan, [p for p in parts if p is not condition], chain)


def _varying_end(part: Scalar, column: str) -> tuple[str, int] | None:
    """The column of whole numbers up to which the ranks are wanted, and how many fewer."""
    if not isinstance(part, Call) or part.function not in ("<", "<=", ">", ">="):
        return None
    left, right = part.args if part.function in ("<", "<=") else reversed(part.args)
    while isinstance(right, Call) and right.function == "CAST" and right.type.root in _WHOLE:
        (right,) = right.args
    if not _is(left, column) or not isinstance(right, ColumnRef) or right.type.root not in _WHOLE:
        return None
    return right.name, int(len(part.function) == 1)


def _below(chain: list[LogicalPlan], column: str) -> str | None:
    """What the column is called below a chain of projections and filters; None where it is made in
    it."""
    for node in chain:
        item = dict(node.items).get(column) if isinstance(node, Project) else None
        if isinstance(node, Project) and not isinstance(item, ColumnRef):
            return None
        column = item.name if isinstance(item, ColumnRef) else column
    return column


def _positive(part: Scalar) -> Scalar:
    """NOT of a comparison as the comparison that it is; a rank is never NULL."""
    if not isinstance(part, Call) or part.function != "NOT" or not isinstance(part.args[0], Call):
        return part
    inner = part.args[0]
    return replace(inner, function=_NEGATED[inner.function]) if inner.function in _NEGATED else part


def _check_rank(over: Over, bounds: _Bounds) -> None:
    """Refuses what is no order and no number of rows."""
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
    """Ranks right below other ranks are told by their numbers, as Flink does, since its OVER takes
    all columns there."""
    if isinstance(plan, Project) and all(isinstance(e, ColumnRef) for _, e in plan.items):
        return plan.with_inputs((_by_number(plan.input),))
    return (
        replace(plan, keeps_name=True)
        if type(plan) is Rank and plan.rank_name is not None
        else plan
    )


def _with_number(rank: Rank) -> LogicalPlan:
    """The rank; where only one is wanted, every row has that, and it need not be told by it."""
    if type(rank) is not Rank or rank.start != rank.end or rank.rank_name is None:
        return rank
    bare = replace(rank, rank_name=None)
    own = [(c.name, ColumnRef(c.name, c.type)) for c in bare.schema]
    number = Literal(rank.start, rank.schema.type(rank.rank_name))
    return Project(bare, (*own, (rank.rank_name, number)))


def _narrowed(bounds: _Bounds, part: Scalar, column: str) -> _Bounds | None:
    """The bounds with one more condition; None if it says nothing of the rank."""
    if not isinstance(part, Call):
        return None
    if part.function == "BETWEEN":
        value, low, high = part.args
        if _is(value, column) and _number(low) is not None and _number(high) is not None:
            return _Bounds(
                max(bounds.start, _number(low) or 0), min(bounds.end, _number(high) or 0)
            )
        return None
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
    """Whether it is the column, perhaps in a wider type."""
    while isinstance(value, Call) and value.function == "CAST":
        (value,) = value.args
    return isinstance(value, ColumnRef) and value.name == column


def _number(value: Scalar) -> int | None:
    if not isinstance(value, Literal) and not any(isinstance(n, ColumnRef) for n in walk(value)):
        value = folded(value)
    while isinstance(value, Call) and value.function == "CAST":
        (value,) = value.args
    return value.value if isinstance(value, Literal) and isinstance(value.value, int) else None
