"""FOR SYSTEM_TIME AS OF: joins to versions of a table, and look-ups."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from planner.analysis.map_lookups import asks
from planner.analysis.top_n import rewrite_every_top_n
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Place, Scope
from planner.catalog import Table
from planner.logical import (
    AssignWatermark,
    Filter,
    JoinKind,
    LogicalPlan,
    LookupJoin,
    Normalize,
    Project,
    Scan,
    Stateful,
    TemporalJoin,
)
from planner.passes.join_keys import join_keys
from planner.rewrite import transform
from planner.scalar import Call, ColumnRef, Literal, Scalar, conjuncts_of
from planner.settings import CACHE_OPTION, FULL, RELOAD_OPTION

_OF_NULLS = (
    "x NOT IN (…) is more than that where NULL may be on either side: declare the columns NOT NULL,"
    " or write NOT EXISTS (SELECT … WHERE column = x)"
)


def version_of(node: exp.Join) -> exp.Expression | None:
    """The expression behind FOR SYSTEM_TIME AS OF, if the join has one."""
    version = node.this.args.get("version")
    return version.args["expression"] if isinstance(version, exp.Version) else None


def temporal_join(
    left: LogicalPlan,
    right: LogicalPlan,
    kind: JoinKind,
    condition: Scalar,
    time: exp.Expression,
    scope: Scope,
    context: Context,
) -> LogicalPlan:
    """The join as of a time of the left side. PlanError where the sides are not made for that."""
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        raise UnsupportedError(
            f"{kind.value} JOIN … FOR SYSTEM_TIME AS OF is not supported",
            detail="Flink has INNER and LEFT only",
            position=position_of(time),
        )
    as_of = _attribute(bind_scalar(time, Place(context, scope, "FOR SYSTEM_TIME AS OF")), time)
    # As of processing time there are no versions to keep: the table is looked up as it is.
    if as_of.type.is_proctime:
        return _lookup(LookupJoin(left, right, kind, condition), time)
    if kind.is_semi:
        raise UnsupportedError(
            "IN and EXISTS look rows up as of processing time only",
            hint="name a column that is PROCTIME(), or JOIN the table as of the row time",
            position=position_of(time),
        )
    version = _time_of_versions(right, time)
    # Folding would lose versions between two mini-batches.
    join = TemporalJoin(
        left, transform(rewrite_every_top_n(right), _unfolded), kind, condition, as_of.name, version
    )
    _check_key(join, time)
    return join


def _attribute(as_of: Scalar, time: exp.Expression) -> ColumnRef:
    if isinstance(as_of, ColumnRef) and (as_of.type.is_rowtime or as_of.type.is_proctime):
        return as_of
    raise PlanError(
        "FOR SYSTEM_TIME AS OF takes a time attribute of the left side",
        detail=f"'{as_of}' is {as_of.type}",
        hint="name a column with a WATERMARK, or one that is PROCTIME()",
        position=position_of(time),
    )


def _time_of_versions(right: LogicalPlan, time: exp.Expression) -> str:
    times = [c.name for c in right.schema if c.type.is_rowtime]
    if not times:
        raise PlanError(
            "the table of FOR SYSTEM_TIME AS OF has no time of its versions",
            hint="declare a WATERMARK on it, or join as of a column that is PROCTIME()",
            position=position_of(time),
        )
    return times[0]


def _check_key(join: TemporalJoin, time: exp.Expression) -> None:
    equal = set(_keyed(join).keys(1))
    keys = join.right.upsert_keys
    if not any(key <= equal for key in keys):
        raise PlanError(
            "the columns that are equal must have the primary key of the table with versions among"
            " them",
            detail=f"its keys: {'; '.join(', '.join(sorted(k)) for k in keys) or 'none'}",
            hint="declare PRIMARY KEY (…) NOT ENFORCED, and join by all of its columns",
            position=position_of(time),
        )


def _unfolded(node: LogicalPlan) -> LogicalPlan:
    """Returns a plan that keeps each version, however soon the next one comes."""
    return replace(node, row_by_row=True) if isinstance(node, Stateful) and node.folds else node


def _keyed(join: TemporalJoin | LookupJoin) -> TemporalJoin | LookupJoin:
    """The join as it will run: its equalities are over columns."""
    # Keys are computed by a pass that runs later: applied here to see what it will find.
    plan = join_keys(join)
    while isinstance(plan, Project):
        plan = plan.input
    assert isinstance(plan, TemporalJoin | LookupJoin)
    return plan


def _lookup(join: LookupJoin, time: exp.Expression) -> LogicalPlan:
    table, names = _dimension(join.right)
    if table is None:
        raise UnsupportedError(
            "a join as of processing time is one to a table, and not to a query",
            hint="name the table itself, or join as of a row time",
            position=position_of(time),
        )
    if not _keyed(join).keys(1) and not any(
        _is_constant(p, join) for p in conjuncts_of(join.condition)
    ):
        raise PlanError(
            "a look-up needs an equality with a column of the table",
            hint=_OF_NULLS if join.kind is JoinKind.ANTI else None,
            position=position_of(time),
        )
    key = tuple(names[k] for k in table.primary_key if k in names)
    right = transform(join.right, _looked_up) if _is_beside(table) else join.right
    whole = len(key) == len(table.primary_key)
    # A primary key that the query does not give whole tells no row apart.
    return LookupJoin(join.left, right, join.kind, join.condition, key if whole else ())


def _is_beside(table: Table) -> bool:
    """True if versions of the whole table are kept, in which rows are looked up, or it is asked for
    the rows of keys."""
    cache = table.options.get(CACHE_OPTION, "").strip().upper()
    return RELOAD_OPTION in table.options or cache == FULL or asks(table)


def _looked_up(node: LogicalPlan) -> LogicalPlan:
    return replace(node, looked_up=True) if isinstance(node, Scan) else node


def _is_constant(part: Scalar, join: LookupJoin) -> bool:
    """True if a conjunct equates a column of the table with a literal."""
    if not isinstance(part, Call) or part.function != "=":
        return False
    columns = [a.name for a in part.args if isinstance(a, ColumnRef)]
    return any(c in join.right.schema for c in columns) and any(
        isinstance(a, Literal) for a in part.args
    )


def primary_key_of(plan: LogicalPlan) -> list[Scalar]:
    """Returns the columns of a plan that are the primary key of the table which it reads as it is,
    as far as they are in it."""
    table, names = _dimension(plan)
    key = () if table is None else table.primary_key
    return [ColumnRef(names[k], plan.schema.type(names[k])) for k in key if k in names]


def _dimension(plan: LogicalPlan) -> tuple[Table | None, dict[str, str]]:
    """The table that a plan reads as it is, and its columns' names there."""
    match plan:
        case Scan():
            return plan.table, {n: n for n in plan.schema.names}
        case AssignWatermark() | Filter() | Normalize():
            return _dimension(plan.input)
        case Project():
            table, names = _dimension(plan.input)
            columns = {e.name: n for n, e in plan.items if isinstance(e, ColumnRef)}
            return table, {own: columns[below] for own, below in names.items() if below in columns}
    return None, {}
