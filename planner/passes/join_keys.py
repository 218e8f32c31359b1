"""Equal expressions of the two sides of a join become equal columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard

from parser.types import STRING, DataType
from planner.logical import BinaryJoin, LogicalPlan, Project, TemporalJoin
from planner.rewrite import conjunction, references, transform
from planner.scalar import Call, ColumnRef, Scalar, columns_of, conjuncts_of, is_deterministic

_EQUALITIES = ("=", "IS NOT DISTINCT FROM")


def join_keys(plan: LogicalPlan) -> LogicalPlan:
    """Computes the sides of an equality below the join, so that the join finds rows by columns
    (Calcite: JoinPushExpressionsRule).

    >>> from planner.examples import show
    >>> show("join_keys", "SELECT t.a FROM t JOIN u ON UPPER(t.s) = u.s")
    Join INNER ON (UPPER(s) = s0)
      Scan t (topic)
    -->
    Project a, b, s, a0, c, s0
      Join INNER ON (key$0 = s0)
        Project a, b, s, UPPER(s) AS key$0
          Scan t (topic)

    Only where an equality has a side of its own on each side of the join, and both are
    deterministic.
    """
    return transform(plan, _keyed)


def _keyed(node: LogicalPlan) -> LogicalPlan:
    # A join may write its keys as a = b OR both NULL.
    if not isinstance(node, BinaryJoin):
        return node
    parts = [_null_safe(p) for p in conjuncts_of(node.condition)]
    added: tuple[dict[str, Scalar], dict[str, Scalar]] = ({}, {})
    names = {*node.left.schema.names, *node.right.schema.names}
    keyed = [_part(p, node, added, names) for p in parts]
    # By identity: nothing was rewritten.
    if all(a is b for a, b in zip(keyed, conjuncts_of(node.condition), strict=True)):
        return node
    sides = [_with(side, items) for side, items in zip(node.inputs, added, strict=True)]
    joined = replace(node.with_inputs(sides), condition=conjunction(keyed))
    # NOT NULL of new columns may change the schema: then the columns are named anew.
    if joined.schema == node.schema:
        return joined
    return Project(joined, references(node.schema, node.schema.names))


def _with(side: LogicalPlan, items: dict[str, Scalar]) -> LogicalPlan:
    return (
        Project(side, (*references(side.schema, side.schema.names), *items.items()))
        if items
        else side
    )


def _part(
    part: Scalar,
    node: BinaryJoin,
    added: tuple[dict[str, Scalar], dict[str, Scalar]],
    names: set[str],
) -> Scalar:
    """An equality over columns, where those that are computed are put into `added`; any other part
    of the condition unchanged."""
    if not isinstance(part, Call) or part.function not in _EQUALITIES:
        return part
    sides = [_side(a, node) for a in part.args]
    # One argument from each side; two of one side are no key.
    if set(sides) != {0, 1} or _versions_by_other_keys(part, node):
        return part
    kind = _common(part.args[0].type, part.args[1].type)
    # Plain columns of one type are keys already.
    if kind is None or (
        all(isinstance(a, ColumnRef) for a in part.args)
        and part.args[0].type.same_as(part.args[1].type)
    ):
        return part
    args = []
    for side, argument in zip(sides, part.args, strict=True):
        if not argument.type.same_as(kind):
            # Both sides hash alike only if they are of one type.
            argument = Call("CAST", (argument,), kind.with_nullable(argument.type.nullable))
        if not isinstance(argument, ColumnRef):
            assert side is not None
            argument = _column(argument, added[side], names)
        args.append(argument)
    return replace(part, args=tuple(args))


def _versions_by_other_keys(part: Call, node: BinaryJoin) -> bool:
    """True for a NULL-safe equality of computed values in a temporal join: versions are found by
    the primary key, and in Flink such an equality is no part of it."""
    computed = not all(isinstance(a, ColumnRef) for a in part.args)
    return isinstance(node, TemporalJoin) and part.function == "IS NOT DISTINCT FROM" and computed


def _side(argument: Scalar, node: BinaryJoin) -> int | None:
    """The side whose columns, and no others, a deterministic expression reads."""
    read = columns_of(argument)
    if not read or not is_deterministic(argument):
        return None
    return next(
        (port for port, side in enumerate(node.inputs) if read <= set(side.schema.names)), None
    )


def _common(a: DataType, b: DataType) -> DataType | None:
    """The type to which both sides are cast; None where the comparison itself converts them."""
    if a.same_as(b):
        return a
    return STRING if a.is_string and b.is_string else None


def _column(value: Scalar, added: dict[str, Scalar], names: set[str]) -> ColumnRef:
    """The column of `added` that has this value; a new one where there is none."""
    for name, known in added.items():
        # Equal expressions share a column.
        if known.digest == value.digest:
            return ColumnRef(name, value.type)
    number = 0
    while f"key${number}" in names:
        number += 1
    name = f"key${number}"
    names.add(name)
    added[name] = value
    return ColumnRef(name, value.type)


def _null_safe(part: Scalar) -> Scalar:
    """a = b OR (a IS NULL AND b IS NULL) is a IS NOT DISTINCT FROM b."""
    if not _is_call(part, "OR") or len(part.args) != 2:
        return part
    # Either order of the two operands of OR.
    for equal, nulls in (part.args, part.args[::-1]):
        if not _is_call(equal, "=") or not _is_call(nulls, "AND"):
            continue
        tested = {a.args[0].digest for a in nulls.args if _is_call(a, "IS NULL")}
        # Both columns are tested, each once.
        if len(nulls.args) == 2 and tested == {a.digest for a in equal.args} and len(tested) == 2:
            never_null = equal.type.with_nullable(False)
            return replace(equal, function="IS NOT DISTINCT FROM", type=never_null)
    return part


def _is_call(value: Scalar, function: str) -> TypeGuard[Call]:
    return isinstance(value, Call) and value.function == function
