"""TO_CHANGELOG and FROM_CHANGELOG: changes as rows with a code of their kind, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.types import STRING, Column
from planner.binder.scope import Context, Query, did_you_mean, distinct_names
from planner.logical import FromChangelog, LogicalPlan, Stateful, ToChangelog
from planner.rewrite import transform

TableArgument = Callable[[exp.Expression, Context], Query]

_PARAMETERS = ("input", "op", "op_mapping")
_KINDS = {"INSERT": "+I", "UPDATE_BEFORE": "-U", "UPDATE_AFTER": "+U", "DELETE": "-D"}
_FROM, _TO = "FROM_CHANGELOG", "TO_CHANGELOG"


def is_changelog_function(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() in (_FROM, _TO)


def bind_changelog_function(node: exp.Expression, context: Context, table: TableArgument) -> Query:
    """FROM_CHANGELOG or TO_CHANGELOG (input => TABLE t, op => DESCRIPTOR(op), op_mapping =>
    MAP['…', '…']). PARTITION BY of the input says where rows go, which is settled by those who read
    them."""
    assert isinstance(node, exp.Anonymous)
    arguments = _arguments(node)
    query = table(arguments["input"], context)
    op = _descriptor(arguments["op"]) if "op" in arguments else "op"
    pairs = _pairs(arguments["op_mapping"]) if "op_mapping" in arguments else None
    return (
        _from(node, query, op, pairs) if node.name.upper() == _FROM else _to(node, query, op, pairs)
    )


def _from(
    node: exp.Expression, query: Query, op: str, pairs: list[tuple[str, str]] | None
) -> Query:
    if op not in query.names:
        hint = did_you_mean(op, query.names, "column") or "name it: op => DESCRIPTOR(column)"
        raise PlanError(
            f"the input of {_FROM} has no column '{op}'", hint=hint, position=position_of(node)
        )
    column = query.plan.schema.columns[query.names.index(op)]
    if not column.type.is_string:
        raise PlanError(
            f"the op column '{op}' of {_FROM} must be a STRING", position=position_of(node)
        )
    if query.plan.changes:
        raise PlanError(f"the input of {_FROM} must have new rows only", position=position_of(node))
    named = (
        [(code, _kind(name, node)) for code, name in pairs]
        if pairs is not None
        else list(_KINDS.items())
    )
    kinds = _by_code(named, node)
    if "+U" in kinds.values() and "-U" not in kinds.values():
        raise PlanError(
            f"the op mapping of {_FROM} has UPDATE_AFTER without UPDATE_BEFORE",
            detail="updates are read with the rows that they replace",
            position=position_of(node),
        )
    names = tuple(n for n in query.names if n != op)
    return Query(FromChangelog(query.plan, column.name, tuple(kinds.items())), names)


def _to(node: exp.Expression, query: Query, op: str, pairs: list[tuple[str, str]] | None) -> Query:
    codes: dict[str, str] = {}
    named = [(kind, name) for name, kind in _KINDS.items()]
    if pairs is not None:
        named = [
            (_kind(part.strip(), node), code) for names, code in pairs for part in names.split(",")
        ]
    for kind, code in named:
        if kind in codes:
            raise PlanError(
                f"the op mapping of {_TO} names a change operation twice",
                position=position_of(node),
            )
        codes[kind] = code
    (column,) = distinct_names((op,), query.plan.schema.names)
    plan = transform(query.plan, _row_by_row)
    return Query(
        ToChangelog(plan, Column(column, STRING), tuple(codes.items())), (op, *query.names)
    )


def _row_by_row(node: LogicalPlan) -> LogicalPlan:
    """Changes that are rows are told one by one: their number must not depend on where a batch
    ends."""
    return replace(node, row_by_row=True) if isinstance(node, Stateful) and node.folds else node


def _by_code(named: list[tuple[str, str]], node: exp.Expression) -> dict[str, str]:
    """Kinds by code; one name of a map may be several codes, separated by commas."""
    kinds: dict[str, str] = {}
    for codes, kind in named:
        for code in map(str.strip, codes.split(",")):
            if code in kinds:
                raise PlanError(
                    f"the op mapping of {_FROM} has the code '{code}' twice",
                    position=position_of(node),
                )
            kinds[code] = kind
    return kinds


def _kind(name: str, node: exp.Expression) -> str:
    if name not in _KINDS:
        hint = "use " + ", ".join(map(repr, _KINDS))
        raise PlanError(
            f"unknown change operation: '{name}'", hint=hint, position=position_of(node)
        )
    return _KINDS[name]


def _arguments(node: exp.Anonymous) -> Mapping[str, exp.Expression]:
    function = node.name.upper()
    arguments: dict[str, exp.Expression] = {}
    for place, argument in enumerate(node.expressions):
        named = isinstance(argument, exp.Kwarg)
        name = (
            argument.this.name.lower()
            if named
            else _PARAMETERS[place]
            if place < len(_PARAMETERS)
            else "more"
        )
        if name not in _PARAMETERS or name in arguments:
            what = (
                f"{function} has no argument '{name}'"
                if named
                else f"{function} has too many arguments"
            )
            raise _usage(what, function, argument)
        arguments[name] = argument.args["expression"] if named else argument
    if "input" not in arguments:
        raise _usage(f"{function} lacks its argument input", function, node)
    return arguments


def _usage(message: str, function: str, node: exp.Expression) -> PlanError:
    hint = f"write {function}(input => TABLE t, op => DESCRIPTOR(op), op_mapping => MAP['…', '…'])"
    return PlanError(message, hint=hint, position=position_of(node))


def _descriptor(node: exp.Expression) -> str:
    if (
        isinstance(node, exp.Anonymous)
        and node.name.upper() == "DESCRIPTOR"
        and len(node.expressions) == 1
    ):
        return str(node.expressions[0].name)
    raise PlanError("the op column is named with DESCRIPTOR(column)", position=position_of(node))


def _pairs(node: exp.Expression) -> list[tuple[str, str]]:
    """The keys and values of MAP['k', 'v', …]."""
    parts = (
        node.expressions if isinstance(node, exp.Anonymous) and node.name.upper() == "MAP" else []
    )
    texts = [str(p.this) for p in parts if isinstance(p, exp.Literal) and p.is_string]
    if not parts or len(texts) != len(parts) or len(texts) % 2:
        raise PlanError(
            "the op mapping is a map of texts: MAP['INSERT', 'I', …]", position=position_of(node)
        )
    return list(zip(texts[::2], texts[1::2], strict=True))
