"""Conditions above a join, or of the join itself, that read one side only filter that side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from parser.types import BOOLEAN
from planner.analysis.totality import can_fail
from planner.logical import BinaryJoin, Filter, JoinKind, LogicalPlan, Project
from planner.rewrite import conjunction, conjuncts, references, substitute
from planner.scalar import (
    Call,
    ColumnRef,
    Literal,
    Scalar,
    columns_of,
    conjuncts_of,
    is_deterministic,
)
from udf.registry import traits_of

Push = Callable[[LogicalPlan], LogicalPlan]

# The kind of a join that no longer pads the rows of the other side with NULL on this side.
_WITHOUT_PADDING: Final = {
    (JoinKind.LEFT, 1): JoinKind.INNER,
    (JoinKind.RIGHT, 0): JoinKind.INNER,
    (JoinKind.FULL, 0): JoinKind.LEFT,
    (JoinKind.FULL, 1): JoinKind.RIGHT,
}


def filtered_join(node: Filter, join: BinaryJoin, push: Push) -> LogicalPlan:
    """Moves a filter above a join down (Flink: FlinkFilterJoinRule). Conjuncts over one side filter
    that side, those over both become part of an inner join's condition, and an outer join becomes a
    stricter one where the filter drops the rows that it pads with NULL.

    A conjunct that can fail stays above, where it sees joined rows only."""
    parts = conjuncts(node.predicate)
    before = join
    # Each conjunct may make the join stricter: FULL becomes LEFT by one and INNER by another.
    for part in parts:
        kind = _stricter(join, part)
        join = join if kind is join.kind else replace(join, kind=kind)
    # Only an inner join drops what its condition refuses, as a filter above it does.
    takes_pairs = join.kind is JoinKind.INNER and join.moves_conditions
    moved: tuple[list[Scalar], list[Scalar]] = ([], [])
    joined: list[Scalar] = []
    stay: list[Scalar] = []
    for part in parts:
        side = None if can_fail(part) else _side_above(join, part)
        if side is not None:
            moved[side].append(part)
        else:
            (joined if takes_pairs and not can_fail(part) else stay).append(part)
    if join is before and len(stay) == len(parts):
        return node
    join = join.with_inputs(
        [_filtered(i, m, node.salt, push) for i, m in zip(join.inputs, moved, strict=True)]
    )
    if joined:
        join = replace(join, condition=_all([*conjuncts_of(join.condition), *joined]))
    # The new conditions may be moved on into the sides.
    below = _as_before(into_sides(join, push), before)
    return replace(node, input=below, predicate=conjunction(stay)) if stay else below


def _as_before(join: BinaryJoin, before: BinaryJoin) -> LogicalPlan:
    """The join with the column types of the one `before` it: without padding some are NOT NULL."""
    if join.schema == before.schema:
        return join
    return Project(join, references(before.schema, before.schema.names))


def into_sides(join: BinaryJoin, push: Push) -> BinaryJoin:
    """Moves conjuncts of the condition that read one side only to that side, unless the join keeps
    that side's rows whether they match or not."""
    moved: tuple[list[Scalar], list[Scalar]] = ([], [])
    stay: list[Scalar] = []
    for part in conjuncts_of(join.condition):
        side = _side_within(join, part)
        (stay if side is None else moved[side]).append(part)
    if not any(moved):
        return join
    inputs = [_filtered(i, m, "", push) for i, m in zip(join.inputs, moved, strict=True)]
    return replace(join.with_inputs(inputs), condition=_all(stay))


def _side_above(join: BinaryJoin, part: Scalar) -> int | None:
    """The side to which a conjunct above the join can go: the only one that it reads, whose rows
    are not needed to pad those of the other."""
    sides = (0,) if join.kind.is_semi else (0, 1)
    fit = (s for s in sides if _reads_only(join, part, s) and not join.kind.keeps(1 - s))
    return next(filter(join.filters, fit), None)


def _side_within(join: BinaryJoin, part: Scalar) -> int | None:
    """The side to which a conjunct of the join's condition can go: the only one that it reads,
    whose rows the join does not keep without a match."""
    if can_fail(part) or not is_deterministic(part) or not columns_of(part):
        return None
    # A row that the join keeps anyway must not be filtered below it.
    kept = (join.kind.keeps(0) or join.kind is JoinKind.ANTI, join.kind.keeps(1))
    fit = (s for s in (0, 1) if _reads_only(join, part, s) and not kept[s])
    return next(filter(join.filters, fit), None)


def _reads_only(join: BinaryJoin, part: Scalar, side: int) -> bool:
    return columns_of(part) <= set(join.inputs[side].schema.names)


def _filtered(side: LogicalPlan, parts: Sequence[Scalar], salt: str, push: Push) -> LogicalPlan:
    """The side with only the rows for which all parts are TRUE."""
    columns: dict[str, Scalar] = {c.name: ColumnRef(c.name, c.type) for c in side.schema}
    for part in parts:
        # `push` moves each filter on as far as it goes.
        side = push(Filter(side, substitute(part, columns), salt))
    return side


def _all(parts: Sequence[Scalar]) -> Scalar:
    return conjunction(parts) if parts else Literal(True, BOOLEAN.with_nullable(False))


def _stricter(join: BinaryJoin, part: Scalar) -> JoinKind:
    """The kind of the join without the rows that it pads, where `part` is TRUE of none of them."""
    kind = join.kind
    for side in (0, 1):
        # TRUE only where a column of that side is not NULL: padded rows never pass.
        weaker = _WITHOUT_PADDING.get((kind, side))
        if weaker is not None and any(n in join.inputs[side].schema for n in _required(part)):
            kind = weaker
    return kind


def _required(part: Scalar) -> frozenset[str]:
    """Columns that are not NULL where `part` is TRUE."""
    if isinstance(part, Call) and part.function == "AND":
        return frozenset[str]().union(*(_required(a) for a in part.args))
    if isinstance(part, Call) and part.function == "OR":
        # Of OR only what all branches need.
        return frozenset.intersection(*(_required(a) for a in part.args))
    if isinstance(part, Call) and traits_of(part.function).rejects_null:
        return frozenset[str]().union(*(_read_strictly(a) for a in part.args))
    return _read_strictly(part)


def _read_strictly(value: Scalar) -> frozenset[str]:
    """Columns that are not NULL where the value is not NULL: AND and OR may have one without."""
    if isinstance(value, ColumnRef):
        return frozenset((value.name,))
    if isinstance(value, Call) and traits_of(value.function).strict:
        return frozenset[str]().union(*(_read_strictly(a) for a in value.args))
    return frozenset()
