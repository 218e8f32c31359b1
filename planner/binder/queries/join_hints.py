"""Hints of a query: what they say of its joins and its aggregate, and whether they name what is
there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from planner.binder.scope import did_you_mean
from planner.logical import Filter, GroupAggregate, LogicalPlan, Project
from planner.settings import MISS_ATTEMPTS, MISS_DELAY, duration_ms

# How rows are brought together is no choice here; LOOKUP says how a table is asked.
_JOINS = frozenset({"BROADCAST", "SHUFFLE_HASH", "SHUFFLE_MERGE", "NEST_LOOP", "MULTI_JOIN"})
# Without one of them LOOKUP says nothing of keys that are missing.
_RETRY = frozenset({"table", "fixed-delay", "max-attempts"})
# In the meta data of a relation: options of its table.
RETRIES: Final = "retries"
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


def note_retries(node: exp.Select) -> None:
    """Tells the relations of FROM how often a key that they miss is asked for again, and when, as
    the hint LOOKUP says of them. Incomplete, as in Flink's examples of other uses, it says nothing
    of that. PlanError for a value that is none."""
    found = {}
    for call in (c for c in _calls(node) if c.name.upper() == "LOOKUP"):
        said = {e.this.name: e.args["expression"].name for e in call.expressions if _is_pair(e)}
        if said.get("retry-predicate") == "lookup_miss" and said.keys() >= _RETRY:
            found[said["table"]] = _retry(said, call)
    source = node.args.get("from_")
    for relation in (source, *(node.args.get("joins") or ())) if found and source else ():
        options = found.get(relation.this.alias_or_name)
        if options is not None:
            relation.this.meta[RETRIES] = options


def _is_pair(part: exp.Expression) -> bool:
    return isinstance(part, exp.EQ)


def _retry(said: Mapping[str, str], call: exp.Expression) -> Mapping[str, str]:
    """The options of a table that say the same as its hint."""
    delay = duration_ms(said, "fixed-delay")
    attempts = said["max-attempts"]
    if not attempts.isdecimal():
        raise PlanError(
            f"'max-attempts' of hint LOOKUP is a whole number, and not '{attempts}'",
            position=position_of(call),
        )
    return {MISS_ATTEMPTS: attempts, MISS_DELAY: f"{delay} ms"}


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
