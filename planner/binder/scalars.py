"""Scalar expressions: sqlglot trees to typed `planner.scalar` trees, with the implicit casts that Flink makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import TypeAlias

from sqlglot import exp

from parser.datatypes import check_type, type_of
from parser.dialect import position_of
from parser.errors import PlanError, UnknownObject
from parser.literals import is_typed_literal
from parser.nodes import Plus
from parser.types import BIGINT, BOOLEAN, NULL, DataType, Root, TimeAttribute, time
from planner.binder import literals, pool, refusals
from planner.binder.scope import Place
from planner.catalog import Catalog, Function
from planner.scalar import Call, Literal, Scalar, is_deterministic
from udf import registry
from udf.cast import resolve_cast
from udf.user import Kind, bind_user

# Chains of one operator, such as a || b || c …, become as deep as they are long.
MAX_DEPTH = 200

Binder: TypeAlias = Callable[[exp.Expression, Place], Scalar]


def bind_scalar(node: exp.Expression, place: Place) -> Scalar:
    """The expression with names resolved and types found. PlanError or UnsupportedError with a position."""
    binder = BINDERS.get(type(node))
    if binder is None:
        raise refusals.of_expression(node)
    return binder(node, place)


def bind_condition(node: exp.Expression, place: Place) -> Scalar:
    """An expression that must be BOOLEAN; an untyped NULL becomes one."""
    return _condition(bind_scalar(node, place), node, place.clause)


def _condition(bound: Scalar, node: exp.Expression, user: str) -> Scalar:
    if bound.type.root is Root.NULL:
        return literals.null(BOOLEAN)
    if bound.type.root is not Root.BOOLEAN:
        raise PlanError(
            f"{user} takes a condition, but the expression is {bound.type}",
            hint="compare it with something, such as x <> 0",
            position=position_of(node),
        )
    return bound


def function_call(name: str, args: tuple[Scalar, ...], node: exp.Expression) -> Scalar:
    """A call of what `udf` defines under `name`, its arguments cast as the signature asks."""
    if name in REWRITES and (rewritten := REWRITES[name](name, args, node)) is not None:
        return rewritten
    pooled = pool.is_pooled(name)
    if pooled and (known := pool.known_call(name, args)) is not None:
        return known
    try:
        bound = _signature(name, args)
    except PlanError as error:
        raise error.at(position_of(node)) from None
    kind = "TRY_CAST" if name in _EQUALITIES else "CAST"
    cast = tuple([implicit_cast(a, t, node, kind) for a, t in zip(args, bound.arg_types, strict=True)])
    deterministic = bound.definition.deterministic and all(map(is_deterministic, cast))
    position = None if pooled else position_of(node)
    call = Call(bound.definition.name, cast, bound.result_type, deterministic, position)
    return pool.remember(name, args, call) if pooled else call


def _signature(name: str, args: Sequence[Scalar]) -> registry.Bound:
    types = tuple([_plain_time(a.type) for a in args])
    if name in _BY_TYPES or (name == "LIKE" and len(args) == 2):
        return _bound_by_types(name, types)
    return registry.bind(name, types, [a.value if isinstance(a, Literal) else None for a in args])


# A text that is no date is not equal to one; in an order it is an error, as in Flink.
_EQUALITIES = frozenset({"=", "<>"})

# Signatures in which the value of a literal plays no part: rules ask for the same few of them all the time.
_BY_TYPES = frozenset({"=", "<>", "<", "<=", ">", ">=", "IN", "NOT", "LOWER", "UPPER", "IS NULL", "IS NOT NULL"})
_bound_by_types = lru_cache(maxsize=4096)(registry.bind)


def _plain_time(kind: DataType) -> DataType:
    return kind if kind.time is TimeAttribute.NONE else kind.as_attribute(TimeAttribute.NONE)


def implicit_cast(value: Scalar, target: DataType, node: exp.Expression, function: str = "CAST") -> Scalar:
    """`value` as a `target` (nullability stays the value's). Literals that the target holds exactly become its own."""
    if value.type is target or value.type.same_as(target):
        return value
    if isinstance(value, Literal):
        kind = target.plain.with_nullable(value.type.nullable)
        retyped = literals.retyped(value, kind)
        if retyped is not None:
            return retyped
    return cast(function if value.type.is_string else "CAST", value, target, node)


def cast(function: str, value: Scalar, target: DataType, node: exp.Expression) -> Scalar:
    """CAST or TRY_CAST; of an untyped NULL, a typed one. CAST keeps NOT NULL, TRY_CAST never has it. As in Flink no TIME
    has more than three fractional digits."""
    if target.root is Root.TIME and target.precision > 3:
        target = time(3).with_nullable(target.nullable)
    if isinstance(value, Literal) and value.value is None:
        return literals.null(target)
    try:
        kind = resolve_cast(value.type, target, try_cast=function == "TRY_CAST")
    except PlanError as error:
        raise error.at(position_of(node)) from None
    return Call(function, (value,), kind, is_deterministic(value), position_of(node))


def qualifiers(node: exp.Expression) -> tuple[str, ...]:
    """What stands before the name of a column: catalog, database and table, as far as they are given."""
    return tuple(node.args[k].name for k in ("catalog", "db", "table") if node.args.get(k) is not None)


def _literal(node: exp.Expression, place: Place) -> Scalar:
    assert isinstance(node, exp.Literal)
    return literals.text(node.name) if node.is_string else literals.number(node)


def _junction(kind: type[exp.Expression], function: str) -> Binder:
    """AND and OR: n-ary, and flat also through parentheses; a rule may have a thousand operands."""

    def bind(node: exp.Expression, place: Place) -> Scalar:
        first, *rest = _operands(node, kind)
        operands = [
            _operand(first, function, place, function),
            *(_condition(bind_scalar(n, place), n, function) for n in rest),
        ]
        nullable = any(o.type.nullable for o in operands)
        deterministic = all(map(is_deterministic, operands))
        return Call(function, tuple(operands), BOOLEAN.with_nullable(nullable), deterministic)

    return bind


def _operand(node: exp.Expression, function: str, place: Place, user: str) -> Scalar:
    value = bind_scalar(node, place)
    if value.type.root is Root.NULL:
        hint = "write UNKNOWN, or CAST(NULL AS BOOLEAN)"
        raise PlanError(f"{function} takes no NULL without a type", hint=hint, position=position_of(node))
    return _condition(value, node, user)


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
        left = function_call(_OPERATORS[type(operator)], (left, bind_scalar(right, place)), operator)
    return left


def _quantified(node: exp.Expression, left: Scalar, right: exp.Expression, place: Place) -> Scalar:
    """x < ANY (a, b) is x < a OR x < b; ALL is AND."""
    if not isinstance(right.this, exp.Tuple):
        raise refusals.of_expression(right)
    name = _OPERATORS[type(node)]
    tests = tuple([function_call(name, (left, bind_scalar(e, place)), node) for e in right.this.expressions])
    return tests[0] if len(tests) == 1 else function_call("AND" if isinstance(right, exp.All) else "OR", tests, node)


def _not(node: exp.Expression, place: Place) -> Scalar:
    if isinstance(node.this, exp.Is):
        return _is(node.this, place, "IS NOT ")
    return function_call("NOT", (_operand(node.this, "NOT", place, place.clause),), node)


def _is(node: exp.Expression, place: Place, prefix: str = "IS ") -> Scalar:
    right = node.args["expression"]
    if isinstance(right, exp.Var):
        found = _is_of_kind(node, right.name, place)
        return found if prefix == "IS " else function_call("NOT", (found,), node)
    if isinstance(right, exp.Null):
        return function_call(prefix + "NULL", (bind_scalar(node.this, place),), node)
    return function_call(prefix + ("TRUE" if right.this else "FALSE"), (bind_condition(node.this, place),), node)


def _is_of_kind(node: exp.Expression, kind: str, place: Place) -> Scalar:
    """IS JSON [VALUE | SCALAR | ARRAY | OBJECT]."""
    if not kind.startswith("JSON_"):
        raise refusals.of_expression(node, f"IS {kind.replace('_', ' ')}", "use CARDINALITY")
    return function_call("IS JSON", (bind_scalar(node.this, place), literals.text(kind.removeprefix("JSON_"))), node)


def _escape(node: exp.Expression, place: Place) -> Scalar:
    args = (node.this.this, node.this.args["expression"], node.args["expression"])
    return function_call(_OPERATORS[type(node.this)], tuple([bind_scalar(a, place) for a in args]), node)


def _between(node: exp.Expression, place: Place) -> Scalar:
    value, low, high = (bind_scalar(node.args[k], place) for k in ("this", "low", "high"))
    inside = function_call("BETWEEN", (value, low, high), node)
    if not node.args.get("symmetric"):
        return inside
    return function_call("OR", (inside, function_call("BETWEEN", (value, high, low), node)), node)


def _in(node: exp.Expression, place: Place) -> Scalar:
    if node.args.get("query") is not None:
        raise refusals.of_expression(node.args["query"], "IN (SELECT …)", "write the values as a list")
    operands = [node.this, *node.expressions]
    return function_call("IN", tuple([bind_scalar(o, place) for o in operands]), node)


def _case(node: exp.Expression, place: Place) -> Scalar:
    args: list[Scalar] = []
    subject = bind_scalar(node.this, place) if node.this is not None else None
    for branch in node.args["ifs"]:
        condition = bind_scalar(branch.this, place)
        if subject is None:
            condition = _condition(condition, branch.this, "CASE")
        else:
            condition = function_call("=", (subject, condition), branch)
        args += (condition, bind_scalar(branch.args["true"], place))
    default = node.args.get("default")
    args.append(bind_scalar(default, place) if default is not None else literals.null())
    return function_call("CASE", tuple(args), node)


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
    if isinstance(value, Literal) and value.value is not None and not isinstance(value.value, bool | str | bytes):
        if value.value == 0:
            return value  # as in Flink there is no literal -0e0
        smallest = value.value == 2**31 and value.type.root is Root.BIGINT
        return pool.literal(-value.value, pool.INT_NOT_NULL if smallest else value.type)
    return function_call("NEG", (value,), node)


def _call(node: exp.Expression, place: Place) -> Scalar:
    name = node.name.upper()
    user = user_function(node, place.context.catalog)
    if user is not None:
        return _user_call(user, node, place)
    if name in refusals.NOT_SCALAR:
        special = place.special(node) if place.special is not None else None
        if special is None:
            raise refusals.of_special(node, place.clause)
        return special
    if name in CALLS:
        return CALLS[name](node, place)
    refusals.check_arguments(node)
    if registry.lookup(name) is None:
        raise _unknown_function(node, place)
    return function_call(name, tuple([_argument(a, place) for a in node.expressions]), node)


def user_function(node: exp.Expression, catalog: Catalog) -> Function | None:
    """The user's function that a call means; None where it means one that is built in, or none at all."""
    if not isinstance(node, exp.Anonymous):
        return None
    qualifiers = tuple(q.name for q in node.args.get("qualifiers") or ())
    built_in = registry.lookup(node.name) is not None or node.name in refusals.NOT_SCALAR
    return catalog.function((*qualifiers, node.name), built_in=built_in)


def _user_call(function: Function, node: exp.Expression, place: Place) -> Scalar:
    """A call of a user's function: by its content, so that the same under another name is the same."""
    user = function.user
    if user.kind is Kind.TABLE:
        hint = f"write FROM …, LATERAL TABLE({function.display}(…))"
        raise PlanError(f"'{function.display}' is a table function", hint=hint, position=position_of(node))
    if user.kind is Kind.AGGREGATE:
        special = place.special(node) if place.special is not None else None
        if special is None:
            hint = "filter aggregates with HAVING" if place.clause == "WHERE" else "aggregate in a query below"
            message = f"the aggregate '{function.display}' cannot stand in {place.clause}"
            raise PlanError(message, hint=hint, position=position_of(node))
        return special
    refusals.check_arguments(node)
    args, _, result = user_arguments(function, node, place)
    deterministic = user.deterministic and all(map(is_deterministic, args))
    return Call(user.identity, args, result, deterministic, position_of(node))


def user_arguments(
    function: Function, node: exp.Expression, place: Place
) -> tuple[tuple[Scalar, ...], tuple[DataType, ...], DataType]:
    """The arguments of a call with the casts that the parameters ask for, their types, and the type of the result."""
    args = [_argument(a, place) for a in node.expressions]
    try:
        types, result = bind_user(function.user, function.display, [_plain_time(a.type) for a in args])
    except PlanError as error:
        raise error.at(position_of(node)) from None
    return tuple(implicit_cast(a, t, node) for a, t in zip(args, types, strict=True)), types, result


def _unknown_function(node: exp.Expression, place: Place) -> UnknownObject:
    """It may come later: a job of the folder that names it waits."""
    spelled = node.meta.get("name", node.name)
    near = registry.suggest(node.name) or next(
        iter(get_close_matches(node.name.lower(), place.context.catalog.names(Function), 1)), None
    )
    hint = f"did you mean {near}?" if near else None
    return UnknownObject(f"unknown function '{spelled}'", hint=hint, position=position_of(node))


def _argument(node: exp.Expression, place: Place) -> Scalar:
    """An argument; the keyword of EXTRACT(DAY FROM …) and the like is a string."""
    return literals.text(node.name) if isinstance(node, exp.Var) else bind_scalar(node, place)


def _filtered(node: exp.Expression, place: Place) -> Scalar:
    special = place.special(node) if place.special is not None else None
    if special is None:
        raise refusals.of_special(node.this, place.clause)
    return special


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

# Calls that have more than arguments, such as the clauses of JSON_VALUE.
CALLS: dict[str, Binder] = {}

# What is said of some arguments in another way: asked before a call is made, None where there is nothing to say.
REWRITES: dict[str, Callable[[str, tuple[Scalar, ...], exp.Expression], Scalar | None]] = {}

BINDERS: dict[type[exp.Expression], Binder] = {
    exp.Literal: _literal,
    exp.HexString: lambda n, p: literals.binary(n),
    exp.Boolean: lambda n, p: literals.boolean(n.this),
    exp.Null: lambda n, p: literals.null(BOOLEAN if n.args.get("kind") else NULL),
    exp.National: lambda n, p: literals.text(n.this.name),
    exp.Introducer: lambda n, p: literals.text(n.args["expression"].name),
    Plus: _plus,
    exp.Interval: lambda n, p: literals.interval(n),
    exp.Paren: lambda n, p: bind_scalar(n.this, p),
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
    exp.Anonymous: _call,
    exp.Filter: _filtered,
    **dict.fromkeys(_OPERATORS, _operator),
}
