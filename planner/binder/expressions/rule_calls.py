"""RULE_NAME(), RULE_SEVERITY() and so on: what the head of the job's text says of it."""

from __future__ import annotations

import json
from collections.abc import Callable

from sqlglot import exp

from parser.dialect import position_of
from parser.errors import PlanError
from parser.types import STRING
from planner.binder.expressions import literals
from planner.binder.expressions.calls import CALLS, function_call
from planner.binder.expressions.scalars import Binder, bind_scalar
from planner.binder.scope import Place
from planner.rule_settings import Rule, rule_in
from planner.scalar import Literal, Scalar


def register_binders() -> None:
    """Registers the binders of the functions."""
    CALLS["RULE_NAME"] = _rule_name
    CALLS["RULE_ATTRIBUTE"] = _rule_attribute
    CALLS["RULE_TAGS"] = _of_head("RULE_TAGS", lambda rule: json.dumps(rule.tags))
    CALLS["RULE_TITLE"] = _of_head("RULE_TITLE", lambda rule: rule.title)
    CALLS["RULE_ID"] = _of_head("RULE_ID", lambda rule: rule.id)
    CALLS["RULE_SEVERITY"] = _of_head("RULE_SEVERITY", lambda rule: rule.severity)
    CALLS["RULE_OWNER"] = _of_head("RULE_OWNER", lambda rule: rule.owner)
    CALLS["RULE_DESCRIPTION"] = _of_head("RULE_DESCRIPTION", lambda rule: rule.description)


def _rule_name(node: exp.Expression, place: Place) -> Scalar:
    _check_empty(node)
    return function_call("RULE_NAME", (_text(place.context.job),), node)


def _rule_attribute(node: exp.Expression, place: Place) -> Scalar:
    key = bind_scalar(node.expressions[0], place) if len(node.expressions) == 1 else None
    if not isinstance(key, Literal) or not isinstance(key.value, str):
        hint = "write RULE_ATTRIBUTE('my_key')"
        raise PlanError(
            "RULE_ATTRIBUTE takes the name of an attribute as one literal",
            hint=hint,
            position=position_of(node),
        )
    value = _rule(place).attributes.get(key.value, "")
    return function_call("RULE_ATTRIBUTE", (key, _text(value)), node)


def _of_head(name: str, value_of: Callable[[Rule], str]) -> Binder:
    def bind(node: exp.Expression, place: Place) -> Scalar:
        _check_empty(node)
        return function_call(name, (_text(value_of(_rule(place))),), node)

    return bind


def _rule(place: Place) -> Rule:
    return rule_in(place.context.settings) or Rule()


def _check_empty(node: exp.Expression) -> None:
    if node.expressions:
        raise PlanError(f"{node.name.upper()} takes no arguments", position=position_of(node))


def _text(value: str) -> Literal:
    """Returns the text as a literal, NULL for an empty one."""
    return literals.text(value) if value else literals.null(STRING)
