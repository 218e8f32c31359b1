"""The one place that decides who may do what. It knows principals and names, and nothing of what
asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from parser.errors import ServiceError
from sqlengine.access.patterns import any_matches
from sqlengine.access.principals import Grant, Patterns, Principal, Role
from sqlengine.access.shadow_names import rule_of


class Action(StrEnum):
    """An action that somebody asks for, in words that go before the name of its object."""

    BE_KNOWN = "use this server"
    ADMINISTER = "administer this server"
    ASK = "ask for tables and queries"
    SEE_JOB = "see job"
    CHANGE_JOB = "change job"
    SEE_TOPIC = "see topic"
    READ_TOPIC = "read topic"
    WRITE_TOPIC = "write topic"
    USE_CONNECTOR = "use connector"
    USE_FUNCTION = "use function"
    USE_SECRET = "use secret"


@dataclass(frozen=True)
class _Rule:
    """One of the roles is needed, and if there is `names` one of their patterns."""

    roles: frozenset[Role]
    names: Callable[[Grant], Patterns] | None = None


@dataclass(frozen=True)
class Decision:
    """The answer, and for a refusal what is missing."""

    allowed: bool
    missing: str = ""


class Unauthorised(ServiceError):
    """A request comes from nobody that the server knows."""

    title = "not authorised"


class Forbidden(ServiceError):
    """Somebody whom the server knows may not do what was asked for. `by`: the principal's name;
    `named`: that of the object, if one was asked for."""

    title = "forbidden"
    by = ""
    named = ""


_READERS: Final = frozenset({Role.READ, Role.SUBMIT})
_WRITERS: Final = frozenset({Role.WRITE})
_SUBMITTERS: Final = frozenset({Role.SUBMIT})
_RULES: Final[Mapping[Action, tuple[_Rule, ...]]] = {
    Action.BE_KNOWN: (_Rule(frozenset(Role)),),
    Action.ADMINISTER: (),
    Action.ASK: (_Rule(_READERS),),
    Action.SEE_JOB: (_Rule(_READERS, lambda g: g.jobs),),
    Action.CHANGE_JOB: (_Rule(_SUBMITTERS, lambda g: g.jobs),),
    Action.SEE_TOPIC: (
        _Rule(_READERS, lambda g: g.read_topics),
        _Rule(_WRITERS, lambda g: g.write_topics),
    ),
    Action.READ_TOPIC: (_Rule(_READERS, lambda g: g.read_topics),),
    Action.WRITE_TOPIC: (_Rule(_WRITERS, lambda g: g.write_topics),),
    Action.USE_CONNECTOR: (_Rule(_READERS, lambda g: g.connectors),),
    Action.USE_FUNCTION: (_Rule(_READERS, lambda g: g.functions),),
    Action.USE_SECRET: (_Rule(_READERS, lambda g: g.secrets),),
}
_OF_JOBS: Final = frozenset({Action.SEE_JOB, Action.CHANGE_JOB})
_OF_TOPICS: Final = frozenset({Action.SEE_TOPIC, Action.READ_TOPIC, Action.WRITE_TOPIC})
_SYSTEM: Final = "_"  # topics of the system begin with it


# Decisions that are kept for a principal.
_MOST_DECIDED: Final = 1000
_ALLOWED: Final = Decision(True)


def decide(principal: Principal, action: Action, name: str | None = None) -> Decision:
    """Decides whether a principal may do something with the object of that name.

    Without a name: whether it may with any, by its roles alone; names come later."""
    if principal.is_admin:
        return _ALLOWED
    known = principal.decided.get((action, name))
    if isinstance(known, Decision):
        return known
    if len(principal.decided) >= _MOST_DECIDED:
        principal.decided.clear()
    decision = _decide(principal, action, name)
    principal.decided[action, name] = decision
    return decision


def _decide(principal: Principal, action: Action, name: str | None) -> Decision:
    if action is Action.ADMINISTER:
        return Decision(False, "role 'admin'")
    if action in _OF_JOBS and name is not None:
        name = rule_of(name)
    if action in _OF_TOPICS and name is not None and name.startswith(_SYSTEM):
        return Decision(False, "role 'admin', to which topics of the system belong")
    rules = _RULES[action]
    if any(_holds(rule, grant, name) for rule in rules for grant in principal.grants):
        return _ALLOWED
    return Decision(False, _missing(principal, action, rules, name))


def _holds(rule: _Rule, grant: Grant, name: str | None) -> bool:
    if rule.roles.isdisjoint(grant.roles):
        return False
    return rule.names is None or name is None or any_matches(rule.names(grant), name)


def _missing(
    principal: Principal, action: Action, rules: tuple[_Rule, ...], name: str | None
) -> str:
    has_role = any(not r.roles.isdisjoint(g.roles) for r in rules for g in principal.grants)
    roles = " or ".join(f"'{role}'" for role in Role if any(role in r.roles for r in rules))
    if name is None or not has_role:
        return f"role {roles}"
    kind = action.value.rpartition(" ")[2]
    return f"a pattern of {kind}s, with role {roles}, that '{name[:200]}' matches"


def allows(principal: Principal, action: Action, name: str | None = None) -> bool:
    """True if a principal may do that."""
    return decide(principal, action, name).allowed


def require(principal: Principal, action: Action, name: str | None = None) -> None:
    """Raises Forbidden if a principal may not do that."""
    decision = decide(principal, action, name)
    if not decision.allowed:
        raise forbidden(principal, action, name, decision.missing)


def forbidden(principal: Principal, action: Action, name: str | None, missing: str) -> Forbidden:
    """Returns the refusal: who asked for what, and what is missing."""
    if name is not None:
        what = f"{action.value} '{name[:200]}'"
    else:  # any of them
        what = action.value + "s" * any(rule.names is not None for rule in _RULES[action])
    error = Forbidden(
        f"{principal.shown} may not {what}",
        detail=f"missing: {missing}",
        hint="the server's administrator gives it, in the file that 'sql serve --access' names",
    )
    error.by, error.named = principal.name, name or ""
    return error
