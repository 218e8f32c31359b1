"""Binds MATCH_RECOGNIZE: its clauses, and the restrictions that Flink has for patterns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from parser import nodes
from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import Root
from planner.analysis.top_n import rewrite_top_n
from planner.binder import pool
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Place, Query, distinct_names
from planner.binder.windows.over import sort_keys
from planner.binder.windows.pattern_values import MatchContext, PatternValues, input_columns
from planner.logical import (
    LogicalPlan,
    MatchRecognize,
    PatternItem,
    PatternValue,
    Project,
    Skip,
    SortKey,
)
from planner.scalar import ColumnRef, Literal, Scalar

# The greatest number in a quantifier: that of an INT.
_MAX_ROWS = 2**31 - 1


def bind_match(node: exp.MatchRecognize, query: Query, context: Context) -> Query:
    """Returns the query of the matches: the columns of PARTITION BY, then the measures.

    PlanError for clauses that contradict each other or the input, UnsupportedError for patterns
    that Flink does not support either."""
    if not context.batch:
        query = replace(query, plan=rewrite_top_n(query.plan))
    if query.plan.changes and not context.batch:
        hint = "match before rows are aggregated or joined"
        message = "MATCH_RECOGNIZE takes rows that only come, but those of its input are updated"
        raise PlanError(message, hint=hint, position=position_of(node))
    _check_rows(node)
    place = Place(context, query.scope(()), "MATCH_RECOGNIZE")
    partition = _partition(node, place)
    order = _order(node, query, place, context.batch)
    items = tuple(_items(node.args["pattern"]))
    _check_pattern(items, node)
    columns = input_columns(query.names, query.plan.schema)
    time = pool.column(order[0].column, query.plan.schema.type(order[0].column))
    defined = tuple(d.alias for d in node.args["define"])
    match = MatchContext(context, columns, items, _subsets(node, items), time, defined)
    within = _within(node, place)
    _check_absence(items, within, node)
    return _matches(node, query, match, (partition, order, within))


def _matches(
    node: exp.MatchRecognize,
    query: Query,
    match: MatchContext,
    clauses: tuple[tuple[ColumnRef, ...], tuple[SortKey, ...], int],
) -> Query:
    """Binds DEFINE and MEASURES. `clauses` are PARTITION BY, ORDER BY and WITHIN (ms)."""
    (partition, order, within), context = clauses, match.context
    computed: dict[str, Scalar] = {}
    history: dict[str, PatternValue] = {}
    conditions, varying = _conditions(node, match, computed, history)
    measures = PatternValues(match, computed)
    items = [(m.alias, measures.bind(m.this)) for m in node.args.get("measures") or ()]
    names = (*(_name_of(match, c) for c in partition), *(n for n, _ in items))
    _check_names(names, node)
    own = [(c.name, pool.column(c.name, c.type)) for c in query.plan.schema]
    salt = context.salt((*computed.values(), *varying, *measures.varying))
    below: LogicalPlan = query.plan
    if computed:
        below = Project(below, (*own, *computed.items()), salt)
    matches = MatchRecognize(
        below,
        tuple(c.name for c in partition),
        order,
        match.items,
        *_skip(node, match),
        within,
        conditions,
        tuple(history.values()),
        tuple(measures.values.values()),
        position_of(node),
    )
    outputs = [*((c.name, pool.column(c.name, c.type)) for c in partition), *items]
    fresh = distinct_names(names)
    values = tuple(v for _, v in outputs)
    return Query(
        Project(matches, tuple(zip(fresh, values, strict=True)), context.salt(values)), names
    )


def _name_of(match: MatchContext, column: ColumnRef) -> str:
    return next(n for n, c in match.columns.items() if c.name == column.name)


def _check_names(names: tuple[str, ...], node: exp.Expression) -> None:
    if not names:
        hint = "add MEASURES, or PARTITION BY"
        raise PlanError("MATCH_RECOGNIZE gives no columns", hint=hint, position=position_of(node))
    twice = next((n for i, n in enumerate(names) if n in names[:i]), None)
    if twice is not None:
        hint = "give each measure a name of its own"
        raise PlanError(
            f"MATCH_RECOGNIZE gives two columns '{twice}'", hint=hint, position=position_of(node)
        )


def _check_rows(node: exp.MatchRecognize) -> None:
    rows = node.args.get("rows")
    if rows is not None and rows.name == "ALL":
        hint = "write ONE ROW PER MATCH, with measures for what is wanted of the rows"
        raise UnsupportedError(
            "ALL ROWS PER MATCH is not supported", hint=hint, position=position_of(rows)
        )


def _partition(node: exp.MatchRecognize, place: Place) -> tuple[ColumnRef, ...]:
    columns: dict[str, ColumnRef] = {}
    for item in node.args.get("partition_by") or ():
        value = bind_scalar(item, place)
        if not isinstance(value, ColumnRef):
            hint = "compute it in a query below"
            raise PlanError(
                "PARTITION BY of MATCH_RECOGNIZE takes columns",
                hint=hint,
                position=position_of(item),
            )
        columns[value.name] = value
    return tuple(columns.values())


def _order(
    node: exp.MatchRecognize, query: Query, place: Place, batch: bool
) -> tuple[SortKey, ...]:
    def column(item: exp.Expression) -> str:
        value = bind_scalar(item, place)
        if not isinstance(value, ColumnRef):
            hint = "compute it in a query below"
            raise PlanError(
                "ORDER BY of MATCH_RECOGNIZE takes columns", hint=hint, position=position_of(item)
            )
        return value.name

    keys = sort_keys(node.args.get("order"), column)
    position = position_of(node.args.get("order") or node)
    kind = query.plan.schema.type(keys[0].column) if keys else None
    if kind is None or not (kind.is_rowtime or kind.is_proctime or (batch and kind.is_timestamp)):
        raise PlanError(
            "ORDER BY of MATCH_RECOGNIZE must begin with a time attribute",
            detail=None if kind is None else f"it begins with {keys[0].column}, which is {kind}",
            hint="declare WATERMARK FOR column AS … in CREATE TABLE, or a column AS PROCTIME()",
            position=position,
        )
    if keys[0].descending:
        raise PlanError(
            "the time attribute of MATCH_RECOGNIZE is in ascending order", position=position
        )
    return keys


def _subsets(
    node: exp.MatchRecognize, items: tuple[PatternItem, ...]
) -> Mapping[str, tuple[str, ...]]:
    known = [i.variable for i in items if not i.absent]
    subsets: dict[str, tuple[str, ...]] = {}
    for subset in node.args.get("subset") or ():
        name = subset.this.name
        members = [m.name for m in subset.expressions]
        unknown = next((m for m in members if m not in known), None)
        if unknown is not None:
            raise PlanError(
                f"SUBSET '{name}' names '{unknown}', which is not in PATTERN",
                position=position_of(subset),
            )
        if name in known or name in subsets:
            raise PlanError(f"the variable '{name}' is there already", position=position_of(subset))
        subsets[name] = tuple(k for k in known if k in members)
    return subsets


def _within(node: exp.MatchRecognize, place: Place) -> int:
    """Returns WITHIN in ms; 0 without one."""
    given = node.args.get("within")
    if given is None:
        return 0
    value = bind_scalar(given, place)
    if (
        not isinstance(value, Literal)
        or not isinstance(value.value, int)
        or value.type.root is not Root.INTERVAL_DAY_TIME
    ):
        hint = "write INTERVAL '1' HOUR"
        raise PlanError(
            "WITHIN takes an interval of days to seconds", hint=hint, position=position_of(given)
        )
    return max(value.value, 0)


def _conditions(
    node: exp.MatchRecognize,
    match: MatchContext,
    computed: dict[str, Scalar],
    history: dict[str, PatternValue],
) -> tuple[tuple[tuple[str, Scalar], ...], list[Scalar]]:
    """Binds DEFINE; returns the conditions by variable, and non-deterministic calls in them.

    Conditions of variables that are not in the pattern are checked, and have no effect."""
    conditions: dict[str, Scalar] = {}
    varying: list[Scalar] = []
    known = {i.variable for i in match.items}
    seen: set[str] = set()
    for definition in node.args["define"]:
        variable = definition.alias
        if variable in seen:
            raise PlanError(
                f"the variable '{variable}' is defined twice", position=position_of(definition)
            )
        seen.add(variable)
        values = PatternValues(match, computed, variable)
        condition = values.condition(definition.this)
        if variable in known:
            conditions[variable] = condition
            history.update(values.values)
            varying += values.varying
    return tuple(conditions.items()), varying


def _skip(node: exp.MatchRecognize, match: MatchContext) -> tuple[Skip, tuple[str, ...]]:
    """Returns the strategy of AFTER MATCH SKIP, and the variables that it names."""
    after = node.args.get("after")
    if after is None:
        return Skip.NEXT, ()
    kind = Skip[after.args["kind"]]
    if after.this is None:
        return kind, ()
    name = after.this.name
    members = match.variables(name)
    known = {i.variable for i in match.items if not i.absent}
    if not known.issuperset(members):
        raise PlanError(
            f"AFTER MATCH SKIP names '{name}', which is not in PATTERN", position=position_of(after)
        )
    return kind, members


# ---- PATTERN -------------------------------------------------------------------------------------

_REFUSED: dict[type[exp.Expression], tuple[str, str]] = {
    nodes.PatternChoice: ("a choice in PATTERN: a | b", "define one variable with OR"),
    nodes.PatternExclusion: (
        "{- … -} in PATTERN",
        "leave out what is not wanted of it in MEASURES",
    ),
    nodes.PatternPermutation: ("PERMUTE", "write one query for each order"),
}


def _items(node: exp.Expression) -> Iterator[PatternItem]:
    """Yields the variables of PATTERN, in order. UnsupportedError for alternation and the like."""
    match node:
        case nodes.PatternSequence():
            for part in node.expressions:
                yield from _items(part)
        case exp.Paren():
            yield from _items(node.this)
        case nodes.PatternAbsence():
            yield PatternItem(node.this.name, absent=True)
        case nodes.PatternRepeat():
            yield _repeated(node)
        case exp.Identifier():
            yield PatternItem(node.name)
        case _:
            what, hint = _REFUSED[type(node)]
            raise UnsupportedError(
                f"{what} is not supported", hint=hint, position=position_of(node)
            )


def _repeated(node: nodes.PatternRepeat) -> PatternItem:
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    position = position_of(node)
    if not isinstance(inner, exp.Identifier):
        if type(inner) in _REFUSED:
            next(_items(inner))
        hint = "repeat variables one by one"
        raise UnsupportedError(
            "a quantifier behind a group is not supported", hint=hint, position=position
        )
    low, high = (
        None if node.args.get(k) is None else int(node.args[k].name) for k in ("low", "high")
    )
    if low is None:
        raise UnsupportedError(
            "a quantifier without its least number is not supported",
            hint="write {0,n}",
            position=position,
        )
    if (high is not None and high < max(low, 1)) or max(low, high or 0) > _MAX_ROWS:
        raise PlanError(
            "a quantifier takes a least number of rows and one that is not below", position=position
        )
    optional = (low, high) == (0, 1)
    if optional and node.args.get("reluctant"):
        raise UnsupportedError("?? is not supported", hint="write ?, or {0,2}?", position=position)
    greedy = not node.args.get("reluctant") and not optional and low != high
    return PatternItem(inner.name, low, high, greedy)


def _check_pattern(items: tuple[PatternItem, ...], node: exp.MatchRecognize) -> None:
    """UnsupportedError for patterns that Flink refuses: ambiguous, or without an end or a row."""
    position = position_of(node.args["pattern"]) or position_of(node)
    names = [i.variable for i in items]
    if len(set(names)) < len(names):
        hint = "give the second a name of its own, and the same condition"
        raise UnsupportedError(
            "a variable that is twice in PATTERN is not supported", hint=hint, position=position
        )
    for before, item in itertools.pairwise(items):
        if before.greedy and not item.absent and item.low == 0 and item.high in (1, None):
            hint = f"make {before.variable} reluctant, with another ? behind its quantifier"
            message = f"{item.variable}, which can be left out, cannot follow a greedy quantifier"
            raise UnsupportedError(message, hint=hint, position=position)
    if items[-1].greedy:
        hint = "end with a variable alone, or make the quantifier reluctant: B+?"
        raise UnsupportedError(
            "a greedy quantifier cannot end PATTERN", hint=hint, position=position
        )
    if not any(i.low and not i.absent for i in items):
        raise UnsupportedError("a pattern that fits no row is not supported", position=position)


def _check_absence(items: tuple[PatternItem, ...], within: int, node: exp.MatchRecognize) -> None:
    """PlanError where an absent variable [^A] has no row before it, or no end."""
    position = position_of(node.args["pattern"]) or position_of(node)
    if items[0].absent:
        hint = "begin with a variable that a row takes"
        raise PlanError("PATTERN cannot begin with what is absent", hint=hint, position=position)
    if any(a.absent and b.absent for a, b in itertools.pairwise(items)):
        hint = "define one variable with OR"
        raise PlanError(
            "two absent variables cannot follow each other", hint=hint, position=position
        )
    if any(a.absent and not b.low for a, b in itertools.pairwise(items)):
        hint = "let a variable follow that takes a row: B+? for B*?"
        raise PlanError(
            "what follows an absent variable cannot be left out", hint=hint, position=position
        )
    if items[-1].absent and not within:
        hint = "add WITHIN INTERVAL '5' MINUTE behind PATTERN"
        raise PlanError(
            "a pattern that ends with what is absent needs WITHIN", hint=hint, position=position
        )
