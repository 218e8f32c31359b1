"""Values with parts: (a, b), a[i] and r.field; and what is said of pairs: OVERLAPS, = ANY (…)."""

from __future__ import annotations

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.grammar.literals import UNITS
from parser.nodes import Difference
from parser.types import BOOLEAN, Root
from planner.binder import pool, refusals
from planner.binder.expressions import literals
from planner.binder.expressions.calls import CALLS, REWRITES, function_call
from planner.binder.expressions.scalars import BINDERS, bind_scalar, qualifiers
from planner.binder.scope import OUTER, Place, Scope, UnknownColumn
from planner.rewrite import replace_where
from planner.scalar import Call, ColumnRef, Literal, Scalar, is_deterministic
from udf.casts.nested import RECORDS


def _tuple(node: exp.Expression, place: Place) -> Scalar:
    return function_call("ROW", tuple([bind_scalar(e, place) for e in node.expressions]), node)


def bind_beside(left: Scalar, node: exp.Expression, place: Place) -> Scalar:
    """Binds the expression that is compared with `left`: in a row constructor NULL has the type of
    its counterpart."""
    if left.type.root is not Root.ROW or not (
        isinstance(node, exp.Tuple) or node.name.upper() == "ROW"
    ):
        return bind_scalar(node, place)
    if len(left.type.children) != len(node.expressions):
        return bind_scalar(node, place)
    beside = zip(node.expressions, left.type.children, strict=True)
    fields = [
        literals.null(t.with_nullable(True)) if isinstance(e, exp.Null) else bind_scalar(e, place)
        for e, t in beside
    ]
    return function_call("ROW", tuple(fields), node)


def _bracket(node: exp.Expression, place: Place) -> Scalar:
    (index,) = node.expressions
    whole = bind_scalar(node.this, place)
    if whole.type.root is Root.STRUCTURED:
        raise PlanError(
            "an object has no items", hint="write object.field", position=position_of(node)
        )
    return function_call("ITEM", (whole, bind_scalar(index, place)), node)


def _dot(node: exp.Expression, place: Place) -> Scalar:
    if isinstance(node.args["expression"], exp.Star):
        raise refusals.of_expression(node.args["expression"])
    return field_of(bind_scalar(node.this, place), node.args["expression"])


def field_of(whole: Scalar, name: exp.Expression) -> Scalar:
    """The field of a row."""
    if whole.type.root not in RECORDS:
        hint = "a point stands between a table and its column, or a row and its field"
        raise PlanError(
            f"{whole} is {whole.type} and has no field '{name.name}'",
            hint=hint,
            position=position_of(name),
        )
    return function_call("ITEM", (whole, literals.text(name.name)), name)


def fields_of(whole: Scalar, node: exp.Expression) -> list[tuple[str, Scalar]]:
    """Returns all fields of a row by name: row.*"""
    if whole.type.root not in RECORDS:
        raise PlanError(
            f"{whole} is {whole.type} and has no fields for *", position=position_of(node)
        )
    return [(name, field_of(whole, exp.to_identifier(name))) for name in whole.type.names]


def is_in_scope(node: exp.Expression, scope: Scope) -> bool:
    """True if the name is that of a column, or of a field in one."""
    try:
        _in_scope(node, scope)
    except UnknownColumn:
        return False
    return True


def _column(node: exp.Expression, place: Place) -> Scalar:
    """A column in reach, or of the nearest query around that has one of the name."""
    if isinstance(node.this, exp.Star):
        raise PlanError("* cannot stand in an expression", position=position_of(node))
    if place.context.outer is None:
        return _in_scope(node, place.scope)
    try:
        return _around(node, place, whole=True)
    except UnknownColumn:
        return _around(node, place, whole=False)


def _around(node: exp.Expression, place: Place, *, whole: bool) -> Scalar:
    """`whole`: x.y is no field of a column x, since a table x of a query around counts more than a
    column of this one."""
    try:
        return _in_scope(node, place.scope, whole=whole)
    except UnknownColumn:
        prefix, outer = OUTER, place.context.outer
        while outer is not None:
            try:
                resolved = _in_scope(node, outer.scope, whole=whole)
            except UnknownColumn:
                prefix, outer = prefix + OUTER, outer.around
                continue
            return _prefixed(resolved, prefix)
        raise


def _prefixed(value: Scalar, prefix: str) -> Scalar:
    return replace_where(
        value, lambda e: pool.column(prefix + e.name, e.type) if isinstance(e, ColumnRef) else None
    )


def _in_scope(node: exp.Expression, scope: Scope, *, whole: bool = False) -> Scalar:
    """table.column, or column.field.field with a table before it or, if not `whole`, none: the
    longest name of a table counts."""
    if node.args.get("table") is None:
        try:
            return scope.resolve(node.this.this, (), node)
        except UnknownColumn:
            field = _field_in_scope(node.this, scope)
            if field is None:
                raise
            return field
    parts = [
        *(node.args[k] for k in ("catalog", "db", "table") if node.args.get(k) is not None),
        node.this,
    ]
    names = [p.name for p in parts]
    for at in reversed(range(int(whole), len(parts))):
        relation = tuple(names[:at])
        if any(
            f.name == names[at] and f.relation[len(f.relation) - at :] == relation
            for f in scope.fields
        ):
            value: Scalar = scope.resolve(names[at], relation, node)
            for part in parts[at + 1 :]:
                value = field_of(value, part)
            return value
    return scope.resolve(node.name, qualifiers(node), node)


def _field_in_scope(name: exp.Expression, scope: Scope) -> Scalar | None:
    """A name that no column has may be that of a field of one row in reach."""
    rows: list[Scalar] = [f.column for f in scope.named if f.column.type.root in RECORDS]
    while rows:
        matches = [field_of(row, name) for row in rows if name.name in row.type.names]
        if matches:
            return matches[0] if len(matches) == 1 else None
        below = (field_of(row, exp.to_identifier(n)) for row in rows for n in row.type.names)
        rows = [row for row in below if row.type.root in RECORDS]
    return None


def _overlaps(node: exp.Expression, place: Place) -> Scalar:
    """(start, end or length) OVERLAPS (start, end or length): each ends no sooner than the other
    starts."""
    sides = (node.this, node.args["expression"])
    if not all(isinstance(s, exp.Tuple) and len(s.expressions) == 2 for s in sides):
        raise PlanError(
            "OVERLAPS takes two pairs: (start, end) or (start, interval)",
            position=position_of(node),
        )
    (start, end), (other_start, other_end) = (_period(s, place) for s in sides)
    bounds = (
        function_call(">=", (end, other_start), node),
        function_call(">=", (other_end, start), node),
    )
    return function_call("AND", bounds, node)


def _period(node: exp.Expression, place: Place) -> tuple[Scalar, Scalar]:
    """The earlier and the later end."""
    start, end = (bind_scalar(e, place) for e in node.expressions)
    if end.type.root in (Root.INTERVAL_DAY_TIME, Root.INTERVAL_YEAR_MONTH):
        end = function_call("+", (start, end), node)
    ordered = function_call("<=", (start, end), node)
    return function_call("CASE", (ordered, start, end), node), function_call(
        "CASE", (ordered, end, start), node
    )


def _by_field(name: str, args: tuple[Scalar, ...], node: exp.Expression) -> Scalar | None:
    """Rows written out are equal field by field, in three-valued logic: (a, b) = (c, d) is a = c
    AND b = d. They differ as rows do, in which NULL equals NULL."""
    _check_truth(name, args, node)
    rows = [a.args for a in args if isinstance(a, Call) and a.function == "ROW"]
    if name != "<>" and len(rows) == len(args) and len({len(r) for r in rows}) == 1:
        first, *others = rows
        tests = [
            _joined([function_call("=", p, node) for p in zip(first, r, strict=True)], node)
            for r in others
        ]
        return _joined(tests, node, "OR")
    if is_itself(args):
        return _of_itself(args[0], name != "<>", node)
    if name == "IN" and args[0].type.children:
        return _joined([function_call("=", (args[0], a), node) for a in args[1:]], node, "OR")
    return None


def is_itself(args: tuple[Scalar, ...]) -> bool:
    """True if a nested value is compared with itself, which it equals also where it would equal no
    other (NULL elements)."""
    alike = len(args) == 2 and args[0].digest == args[1].digest
    return alike and bool(args[0].type.children) and is_deterministic(args[0])


def _from_itself(name: str, args: tuple[Scalar, ...], node: exp.Expression) -> Scalar | None:
    return literals.boolean(name == "IS NOT DISTINCT FROM") if is_itself(args) else None


def _of_itself(value: Scalar, same: bool, node: exp.Expression) -> Scalar:
    """Returns the comparison of a value with itself: `same`, or NULL where the value is NULL."""
    if not value.type.nullable:
        return literals.boolean(same)
    missing = function_call("IS NULL", (value,), node)
    return function_call("CASE", (missing, literals.null(BOOLEAN), literals.boolean(same)), node)


def _check_truth(name: str, args: tuple[Scalar, ...], node: exp.Expression) -> None:
    """A truth value beside a text in quotes is refused; beside a column of texts it is never equal,
    as in Flink."""
    text = any(isinstance(a, Literal) and a.type.is_string for a in args)
    if (
        name != "IN"
        and text
        and any(not isinstance(a, Literal) and a.type.root is Root.BOOLEAN for a in args)
    ):
        hint = "write x = TRUE, or x alone"
        raise PlanError(
            "a BOOLEAN is not compared with a string", hint=hint, position=position_of(node)
        )


def _joined(tests: list[Scalar], node: exp.Expression, word: str = "AND") -> Scalar:
    return tests[0] if len(tests) == 1 else function_call(word, tuple(tests), node)


def _minus(node: exp.Expression, place: Place) -> Scalar:
    """(a - b) DAY: the time between; (a - b) MONTH: the whole months between."""
    a, b = bind_scalar(node.this, place), bind_scalar(node.args["expression"], place)
    unit = node.args["unit"]
    if a.type.root is not b.type.root:
        hint = "CAST one of them to the type of the other"
        raise PlanError(
            f"{a.type} and {b.type} have no difference", hint=hint, position=position_of(node)
        )
    first = unit.this if isinstance(unit, exp.IntervalSpan) else unit
    if not UNITS[first.name][0]:
        return function_call("TIMESTAMP MINUS", (a, b), node)
    months = function_call("TIMESTAMPDIFF", (literals.text("MONTH"), b, a), node)
    return function_call("*", (months, literals.unit_of("MONTH")), node)


def register_binders() -> None:
    """Registers the binders of nested values, and the rewrites of comparisons of them."""
    BINDERS.update(
        {
            exp.Tuple: _tuple,
            exp.Bracket: _bracket,
            exp.Dot: _dot,
            exp.Column: _column,
            exp.Overlaps: _overlaps,
            Difference: _minus,
        }
    )
    REWRITES.update(dict.fromkeys(("=", "<>", "IN"), _by_field))
    REWRITES.update(dict.fromkeys(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"), _from_itself))
    CALLS["TIMESTAMP MINUS"] = _minus
