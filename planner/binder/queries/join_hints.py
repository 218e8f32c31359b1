"""Hints of a query: what they say of its joins and its aggregate, and whether they name what is
there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from planner.binder.scope import did_you_mean
from planner.logical import Filter, GroupAggregate, LogicalPlan, Project
from planner.settings import duration_ms

# How rows are brought together is no choice here; LOOKUP says how a table is asked.
_JOINS = frozenset({"BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN"})
_KNOWN = (*sorted(_JOINS), "LOOKUP", "STATE_TTL")


def state_ttls(node: exp.Select, relations: Sequence[str], aggregated: bool) -> Mapping[str, int]:
    """Returns the state retention of relations in ms, by name: STATE_TTL('t' = '1 h').

    `relations` are those of FROM; `aggregated`: their rows are grouped. PlanError for an unknown
    hint, for a bad duration, and for names that FROM does not have (as in Flink, only where the
    hint applies)."""
    ttls: dict[str, int] = {}
    for call in _calls(node):
        name = call.name.upper()
        if name not in _KNOWN:
            raise PlanError(
                f"unknown hint {name}",
                hint=did_you_mean(name, _KNOWN, "hint"),
                position=position_of(call),
            )
        named = dict(_named(call))
        unknown = next((n for n in named if n not in relations), None)
        binding = len(relations) > 1 or (name == "STATE_TTL" and aggregated)
        if binding and (unknown is not None or not named):
            what = f"hint {name} names {'no relation' if unknown is None else repr(unknown)}"
            raise PlanError(
                what, hint=f"FROM has {', '.join(relations)}", position=position_of(call)
            )
        if name == "STATE_TTL":
            ttls |= {n: duration_ms({n: value}, n) for n, value in named.items()}
    return ttls


def forgetting(plan: LogicalPlan, ttl_ms: int) -> LogicalPlan:
    """The plan of a query whose aggregate forgets keys that nobody has touched for so long (0: as
    it is)."""
    match plan:
        case GroupAggregate() if ttl_ms:
            return replace(plan, ttl_ms=ttl_ms)
        case Filter() | Project():
            return plan.with_inputs([forgetting(plan.input, ttl_ms)])
    return plan


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
