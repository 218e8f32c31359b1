"""Hints of a query: what they say of its joins, and whether they name what is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from planner.binder.scope import did_you_mean
from planner.settings import duration_ms

# How rows are brought together is no choice here; LOOKUP says how a look-up is tried again.
_JOINS = frozenset({"BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN"})
_KNOWN = (*sorted(_JOINS), "LOOKUP", "STATE_TTL")


def checked(node: exp.Select, relations: Sequence[str]) -> Mapping[str, int]:
    """By relation, how long its rows are kept in ms: STATE_TTL('t' = '1 h'). `relations` are those of FROM. PlanError for
    a hint that there is not, for names that FROM has not, and for what is no time."""
    found: dict[str, int] = {}
    for call in _calls(node):
        name = call.name.upper()
        if name not in _KNOWN:
            raise PlanError(f"unknown hint {name}", hint=did_you_mean(name, _KNOWN, "hint"), position=position_of(call))
        named = dict(_named(call))
        unknown = next((n for n in named if n not in relations), None)
        if len(relations) > 1 and (unknown is not None or not named):
            what = f"hint {name} names {'no relation' if unknown is None else repr(unknown)}"
            raise PlanError(what, hint=f"FROM has {', '.join(relations)}", position=position_of(call))
        if name == "STATE_TTL":
            found |= {n: duration_ms({n: value}, n) for n, value in named.items()}
    return found


def _calls(node: exp.Select) -> Iterator[exp.Expression]:
    hint = node.args.get("hint")
    yield from hint.expressions if hint is not None else ()


def _named(call: exp.Expression) -> Iterator[tuple[str, str]]:
    """The relations that a hint names, with what it says of them."""
    for part in call.expressions:
        if not isinstance(part, exp.EQ):
            yield part.name, ""
        elif call.name.upper() == "STATE_TTL":
            yield part.this.name, part.args["expression"].name
        elif part.this.name == "table":
            yield part.args["expression"].name, ""
