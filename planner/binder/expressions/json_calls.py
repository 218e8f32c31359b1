"""Calls that say more than their arguments: clauses of SQL/JSON become literals that the functions
read, and so does what the session knows."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.grammar.datatypes import type_of
from parser.types import STRING, Root
from planner.binder.expressions import literals
from planner.binder.expressions.calls import CALLS, function_call
from planner.binder.expressions.casts import cast
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Place
from planner.scalar import Call, Scalar

_RAW = frozenset({"JSON_OBJECT", "JSON_ARRAY"})


def _split(node: exp.Expression) -> tuple[list[exp.Expression], dict[str, exp.Expression]]:
    """The arguments, and the clauses by name."""
    plain = [a for a in node.expressions if not isinstance(a, exp.Kwarg)]
    clauses = {
        a.this.name: a.args["expression"] for a in node.expressions if isinstance(a, exp.Kwarg)
    }
    return plain, clauses


def _bound(nodes: list[exp.Expression], place: Place) -> list[Scalar]:
    return [bind_scalar(n, place) for n in nodes]


def _value(node: exp.Expression, place: Place) -> Scalar:
    plain, clauses = _split(node)
    args = _bound(plain, place)
    if not clauses:
        return function_call("JSON_VALUE", tuple(args), node)
    returning = type_of(clauses["RETURNING"]) if "RETURNING" in clauses else STRING
    args.append(literals.text(str(returning.plain)))
    for name in ("ON_EMPTY", "ON_ERROR"):
        behaviour = clauses.get(name)
        default: Scalar = literals.null(returning)
        if behaviour is not None and not isinstance(behaviour, exp.Var):
            default = cast("CAST", bind_scalar(behaviour, place), returning, behaviour)
        args += (literals.text(_word(behaviour, "NULL", "DEFAULT")), default)
    return function_call("JSON_VALUE", tuple(args), node)


def _word(behaviour: exp.Expression | None, missing: str, value: str = "") -> str:
    if behaviour is None:
        return missing
    return behaviour.name.replace("_", " ") if isinstance(behaviour, exp.Var) else value


def _query(node: exp.Expression, place: Place) -> Scalar:
    plain, clauses = _split(node)
    args = _bound(plain, place)
    if clauses:
        returning = type_of(clauses["RETURNING"]) if "RETURNING" in clauses else STRING
        words = [str(returning.plain), _WRAPPERS[_word(clauses.get("WRAPPER"), "WITHOUT")]]
        words += [_behaviour(node, clauses, n, _STRUCTURES) for n in ("ON_EMPTY", "ON_ERROR")]
        args += map(literals.text, words)
    return function_call("JSON_QUERY", tuple(args), node)


_WRAPPERS = {
    "WITHOUT": "WITHOUT",
    "CONDITIONAL": "WITH CONDITIONAL",
    "UNCONDITIONAL": "WITH UNCONDITIONAL",
}
_STRUCTURES = ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT")
_TRUTHS = ("FALSE", "TRUE", "UNKNOWN", "ERROR")


def _behaviour(
    node: exp.Expression, clauses: dict[str, exp.Expression], name: str, known: tuple[str, ...]
) -> str:
    """Returns the behaviour that a clause names, one of `known`; the first of them is the
    default."""
    behaviour = clauses.get(name)
    word = _word(behaviour, known[0])
    if word not in known:
        where = position_of(behaviour) if behaviour is not None else position_of(node)
        raise PlanError(
            f"{node.name} knows {', '.join(known)} {name.replace('_', ' ')}", position=where
        )
    return word


def _exists(node: exp.Expression, place: Place) -> Scalar:
    plain, clauses = _split(node)
    if "ON_EMPTY" in clauses:
        raise PlanError("JSON_EXISTS knows no ON EMPTY", position=position_of(node))
    args = _bound(plain, place)
    if clauses:
        args.append(literals.text(_behaviour(node, clauses, "ON_ERROR", _TRUTHS)))
    return function_call("JSON_EXISTS", tuple(args), node)


def _constructor(name: str, on_null: str, first: int) -> Callable[[exp.Expression, Place], Scalar]:
    """JSON_OBJECT and JSON_ARRAY, whose values begin at `first` and follow each other after as
    many."""

    def bind(node: exp.Expression, place: Place) -> Scalar:
        plain, clauses = _split(node)
        marks, args = [], []
        for i, argument in enumerate(plain):
            checked = isinstance(argument, exp.Anonymous) and argument.name.upper() == "JSON"
            value = _json_text(argument, place) if checked else bind_scalar(argument, place)
            args.append(value)
            if i % (first + 1) == first:
                if value.type.root is Root.NULL:
                    hint = "give NULL a type: CAST(NULL AS ...)"
                    raise PlanError(
                        f"{name} takes no NULL without a type",
                        hint=hint,
                        position=position_of(argument),
                    )
                raw = isinstance(value, Call) and value.function in _RAW
                marks.append("c" if checked else "j" if raw else "v")
        head = (
            literals.text(_word(clauses.get("ON_NULL"), on_null)),
            literals.text("".join(marks)),
        )
        return function_call(name, (*head, *args), node)

    return bind


def _json_text(node: exp.Expression, place: Place) -> Scalar:
    if len(node.expressions) != 1:
        raise PlanError("JSON takes one text", position=position_of(node))
    bound = bind_scalar(node.expressions[0], place)
    if not bound.type.is_string:
        raise PlanError(f"JSON takes a text, and not {bound.type}", position=position_of(node))
    return bound


def _json(node: exp.Expression, place: Place) -> Scalar:
    hint = "write JSON_OBJECT('key' VALUE JSON(text)), or PARSE_JSON(text)"
    raise PlanError(
        "JSON(text) stands in JSON_OBJECT and JSON_ARRAY only",
        hint=hint,
        position=position_of(node),
    )


def _current_database(node: exp.Expression, place: Place) -> Scalar:
    if node.expressions:
        raise PlanError("CURRENT_DATABASE takes no arguments", position=position_of(node))
    return function_call("CURRENT_DATABASE", (literals.text(place.context.catalog.database),), node)


def register_binders() -> None:
    """Registers the binders of the JSON functions."""
    CALLS.update(
        {
            "JSON_VALUE": _value,
            "JSON_QUERY": _query,
            "JSON_EXISTS": _exists,
            "JSON_OBJECT": _constructor("JSON_OBJECT", "NULL", 1),
            "JSON_ARRAY": _constructor("JSON_ARRAY", "ABSENT", 0),
            "JSON": _json,
            "CURRENT_DATABASE": _current_database,
        }
    )
