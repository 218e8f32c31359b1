"""Operators and predicates: AND, comparisons, arithmetic, IS, BETWEEN, IN, CASE, CAST."""

from __future__ import annotations

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.grammar.datatypes import check_type, type_of
from parser.grammar.literals import is_typed_literal
from parser.nodes import Plus
from parser.types import BIGINT, BOOLEAN, Root
from planner.binder import pool, refusals
from planner.binder.expressions import literals
from planner.binder.expressions.calls import REWRITES, function_call
from planner.binder.expressions.casts import cast
from planner.binder.expressions.negation import negation
from planner.binder.expressions.nested import bind_beside, is_itself
from planner.binder.expressions.scalars import (
    BINDERS,
    Binder,
    as_condition,
    bind_condition,
    bind_scalar,
    bind_subquery,
)
from planner.binder.scope import Place
from planner.scalar import Call, Literal, Scalar, is_deterministic

# Chains of one operator, such as a || b || c …, become as deep as they are long.
MAX_DEPTH = 200


def _junction(kind: type[exp.Expression], function: str) -> Binder:
    """AND and OR: n-ary, and flat also through parentheses; a rule may have a thousand operands."""

    def bind(node: exp.Expression, place: Place) -> Scalar:
        first, *rest = _operands(node, kind)
        operands = [
            _operand(first, function, place, function),
            *(as_condition(bind_scalar(n, place), n, function) for n in rest),
        ]
        nullable = any(o.type.nullable for o in operands)
        deterministic = all(map(is_deterministic, operands))
        return Call(function, tuple(operands), BOOLEAN.with_nullable(nullable), deterministic)

    return bind


def _operand(node: exp.Expression, function: str, place: Place, user: str) -> Scalar:
    value = bind_scalar(node, place)
    if value.type.root is Root.NULL:
        hint = "write UNKNOWN, or CAST(NULL AS BOOLEAN)"
        raise PlanError(
            f"{function} takes no NULL without a type", hint=hint, position=position_of(node)
        )
    return as_condition(value, node, user)


def _operands(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    operands = []
    stack = [node]
    while stack:
        current = stack.pop()
        while type(current) is exp.Paren:
            current = current.this
        if type(current) is kind:
            stack += (current.args["expression"], current.this)
        else:
            operands.append(current)
    return operands


def _operator(node: exp.Expression, place: Place) -> Scalar:
    """Operators that group from the left; the way down to the first operand is a loop."""
    chain = []
    while type(node) in _OPERATORS:
        chain.append(node)
        node = node.this
    if len(chain) > MAX_DEPTH:
        raise PlanError(
            f"a chain of {len(chain)} operators is too long",
            hint="use a function such as CONCAT(a, b, …), or a view for a part of it",
            position=position_of(chain[0]),
        )
    left = bind_scalar(node, place)
    for operator in reversed(chain):
        right = operator.args["expression"]
        if isinstance(right, exp.Any | exp.All):
            left = _quantified(operator, left, right, place)
            continue
        left = function_call(
            _OPERATORS[type(operator)], (left, bind_beside(left, right, place)), operator
        )
    return left


def _quantified(node: exp.Expression, left: Scalar, right: exp.Expression, place: Place) -> Scalar:
    """x < ANY (a, b) is x < a OR x < b; ALL is AND."""
    if not isinstance(right.this, exp.Tuple):
        value = bind_subquery(node, place)
        negated = isinstance(node, exp.NEQ) and isinstance(right, exp.All)
        return function_call("NOT", (value,), node) if negated else value
    name = _OPERATORS[type(node)]
    tests = tuple(
        [function_call(name, (left, bind_scalar(e, place)), node) for e in right.this.expressions]
    )
    return (
        tests[0]
        if len(tests) == 1
        else function_call("AND" if isinstance(right, exp.All) else "OR", tests, node)
    )


def _not(node: exp.Expression, place: Place) -> Scalar:
    if isinstance(node.this, exp.Is):
        return _is(node.this, place, "IS NOT ")
    return negation(_operand(node.this, "NOT", place, place.clause), node)


def _is(node: exp.Expression, place: Place, prefix: str = "IS ") -> Scalar:
    right = node.args["expression"]
    if isinstance(right, exp.Var):
        test = _is_of_kind(node, right.name, place)
        return test if prefix == "IS " else function_call("NOT", (test,), node)
    if isinstance(right, exp.Null):
        return function_call(prefix + "NULL", (bind_scalar(node.this, place),), node)
    return function_call(
        prefix + ("TRUE" if right.this else "FALSE"), (bind_condition(node.this, place),), node
    )


def _is_of_kind(node: exp.Expression, kind: str, place: Place) -> Scalar:
    """IS JSON [VALUE | SCALAR | ARRAY | OBJECT]."""
    if not kind.startswith("JSON_"):
        raise refusals.of_expression(node, f"IS {kind.replace('_', ' ')}", "use CARDINALITY")
    return function_call(
        "IS JSON", (bind_scalar(node.this, place), literals.text(kind.removeprefix("JSON_"))), node
    )


def _escape(node: exp.Expression, place: Place) -> Scalar:
    args = (node.this.this, node.this.args["expression"], node.args["expression"])
    return function_call(
        _OPERATORS[type(node.this)], tuple([bind_scalar(a, place) for a in args]), node
    )


def _between(node: exp.Expression, place: Place) -> Scalar:
    value, low, high = (bind_scalar(node.args[k], place) for k in ("this", "low", "high"))
    inside = function_call("BETWEEN", (value, low, high), node)
    if not node.args.get("symmetric"):
        return inside
    return function_call("OR", (inside, function_call("BETWEEN", (value, high, low), node)), node)


def _in(node: exp.Expression, place: Place) -> Scalar:
    if node.args.get("query") is not None:
        return bind_subquery(node, place)
    value = bind_scalar(node.this, place)
    call = function_call(
        "IN", (value, *[bind_beside(value, o, place) for o in node.expressions]), node
    )
    # ROW_NUMBER() IN (1) is a Top-1, too.
    if isinstance(call, Call) and call.function == "IN" and len(call.args) == 2:
        return function_call("=", call.args, node)
    return call


def _case(node: exp.Expression, place: Place) -> Scalar:
    args: list[Scalar] = []
    subject = bind_scalar(node.this, place) if node.this is not None else None
    for branch in node.args["ifs"]:
        condition = bind_scalar(branch.this, place)
        if subject is None:
            condition = as_condition(condition, branch.this, "CASE")
        else:
            condition = function_call("=", (subject, condition), branch)
        args += (condition, bind_scalar(branch.args["true"], place))
    default = node.args.get("default")
    args.append(bind_scalar(default, place) if default is not None else literals.null())
    return function_call("CASE", tuple(args), node)


def _null_if(name: str, args: tuple[Scalar, ...], node: exp.Expression) -> Scalar | None:
    """NULLIF of two times of different kinds, which are compared as what they have in common; that
    of a nested value and itself is NULL."""
    if is_itself(args):
        return literals.null(args[0].type)
    if len(args) != 2 or not all(a.type.is_timestamp or a.type.root is Root.TIME for a in args):
        return None
    if args[0].type.same_as(args[1].type):
        return None
    return function_call("CASE", (function_call("=", args, node), literals.null(), args[0]), node)


def _cast(node: exp.Expression, place: Place) -> Scalar:
    if type(node) is exp.Cast and is_typed_literal(node):
        return literals.point(node)
    value = bind_scalar(node.this, place)
    unit = node.args["to"].meta.get("unit")
    if unit is not None and value.type.is_integer:
        return function_call("*", (value, literals.unit_of(unit, isinstance(value, Literal))), node)
    name = "TRY_CAST" if isinstance(node, exp.TryCast) else "CAST"
    target = type_of(node.args["to"])
    check_type(target, position_of(node.args["to"]))
    return cast(name, value, target, node)


def _plus(node: exp.Expression, place: Place) -> Scalar:
    """A plus takes what a minus takes."""
    value = bind_scalar(node.this, place)
    if value.type.root is not Root.NULL:
        function_call("NEG", (value,), node)
    return value


def _negation(node: exp.Expression, place: Place) -> Scalar:
    if isinstance(node.this, exp.Literal) and node.this.name == str(2**63):
        return pool.literal(-(2**63), BIGINT.with_nullable(False))
    value = bind_scalar(node.this, place)
    if (
        isinstance(value, Literal)
        and value.value is not None
        and not isinstance(value.value, bool | str | bytes)
    ):
        if value.value == 0:
            return value  # as in Flink there is no literal -0e0
        smallest = value.value == 2**31 and value.type.root is Root.BIGINT
        return pool.literal(-value.value, pool.INT_NOT_NULL if smallest else value.type)
    return function_call("NEG", (value,), node)


_OPERATORS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.Like: "LIKE",
    exp.SimilarTo: "SIMILAR TO",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}


def register_binders() -> None:
    """Registers the binders of operators and casts."""
    BINDERS.update(
        {
            Plus: _plus,
            exp.And: _junction(exp.And, "AND"),
            exp.Or: _junction(exp.Or, "OR"),
            exp.Not: _not,
            exp.Is: _is,
            exp.Escape: _escape,
            exp.Between: _between,
            exp.In: _in,
            exp.Case: _case,
            exp.Cast: _cast,
            exp.TryCast: _cast,
            exp.Neg: _negation,
        }
    )
    BINDERS.update(dict.fromkeys(_OPERATORS, _operator))
    REWRITES["NULLIF"] = _null_if
