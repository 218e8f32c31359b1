"""Conditions row by row, as their definition reads: what the rule engine must equal. Shares no code
with it."""

from __future__ import annotations

import ipaddress
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from rules.condition import And, Condition, Constant, Not, Opaque, Or, Predicate, Test, Variable

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip
Row = Mapping[str, object]


def evaluate(condition: Condition, row: Row) -> bool | None:
    match condition:
        case Constant(value):
            return value
        case Opaque(key):
            return opaque(key, row)
        case Not(child):
            value = evaluate(child, row)
            return None if value is None else not value
        case Test(child, wanted, negated):
            is_so = evaluate(child, row) is {"TRUE": True, "FALSE": False, "UNKNOWN": None}[wanted]
            return is_so is not negated
        case And(children):
            values = [evaluate(c, row) for c in children]
            return False if False in values else None if None in values else True
        case Or(children):
            values = [evaluate(c, row) for c in children]
            return True if True in values else None if None in values else False
    return predicate(condition, row)


def opaque(key: str, row: Row) -> bool | None:
    """Compares two columns."""
    left, right = (row[name] for name in key.split("="))
    return None if left is None or right is None else left == right


def predicate(p: Predicate, row: Row) -> bool | None:
    value: Any = variable(p.variable, row)
    if p.operator == "IS NULL":
        return value is None
    if value is None:
        return None
    constant: Any = p.value
    match p.operator, constant:
        case "BETWEEN", (low, high):
            parts = [None if low is None else value >= low, None if high is None else value <= high]
            return False if False in parts else None if None in parts else True
        case "IN", (values, has_null):
            return True if any(value == v for v in values) else None if has_null else False
        case _, None:
            return None
        case "LIKE", (pattern, escape):
            return None if pattern is None else like(value, tokens(pattern, escape))
        case "REGEXP", pattern:
            return pattern != "" and re.search(pattern, value, re.ASCII) is not None
        case "CIDR_MATCH", network:
            return in_network(value, network)
    return bool(COMPARE[p.operator](value, constant))


def variable(v: Variable, row: Row) -> object:
    value: Any = row[v.field]
    for name in v.transforms:
        if value is not None:
            value = (
                value.lower()
                if name == "LOWER"
                else value.upper()
                if name == "UPPER"
                else trim(value, name)
            )
    return value


def trim(text: str, name: str) -> str:
    while name != "RTRIM" and text[:1] == " ":
        text = text[1:]
    while name != "LTRIM" and text[-1:] == " ":
        text = text[:-1]
    return text


def tokens(pattern: str, escape: str | None) -> list[tuple[str, bool]]:
    result, characters = [], iter(pattern)
    for c in characters:
        if c == escape:
            result.append((next(characters), False))
        else:
            result.append((c, c in "%_"))
    return result


def like(text: str, pattern: list[tuple[str, bool]]) -> bool:
    """Which prefixes of the text the pattern so far may have taken."""
    reached = {0}
    for char, wild in pattern:
        if wild and char == "%":
            reached = set(range(min(reached), len(text) + 1)) if reached else reached
        else:
            reached = {i + 1 for i in reached if i < len(text) and (wild or text[i] == char)}
    return len(text) in reached


def in_network(text: str, network: str) -> bool:
    try:
        address, known = (
            ipaddress.ip_address(text.strip()),
            ipaddress.ip_network(network, strict=False),
        )
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address) in known if known.version == 4 else address in known
