"""Doubts about rules: findings for who writes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from parser.rule_head import SEVERITIES
from sqlengine.sigma.conversion import Done
from sqlengine.sigma.folder import Folder
from sqlengine.sigma.reading import Unconvertible
from sqlengine.sigma.rules import (
    About,
    All,
    AnyOf,
    Condition,
    Correlation,
    Match,
    Not,
    Regex,
    Rule,
    Some,
    Text,
    Value,
    Wildcard,
    fields_of,
    matches_of,
)


@dataclass(frozen=True)
class Finding:
    """A rule, and what is wrong (it is not converted) or doubtful."""

    about: About
    wrong: bool
    text: str


def lint(folder: Folder) -> list[Finding]:
    """Returns what there is to say of the rules of a folder, in the order of its files."""
    found = [Finding(d.about, True, d.error.with_hint) for d in folder.conversion.done if d.error]
    ids = Counter(d.about.id for d in folder.conversion.done if d.about.id)
    for done in folder.conversion.converted:
        found += [Finding(done.about, False, text) for text in _doubts(done, folder)]
        if ids[done.about.id] > 1:
            found.append(Finding(done.about, False, f"another rule has the id {done.about.id}"))
    for each in folder.rules.idle():
        found.append(Finding(each.about, False, "the filter changes no rule"))
    return sorted(found, key=lambda f: (f.about.file, f.about.place, not f.wrong))


def _doubts(done: Done, folder: Folder) -> Iterator[str]:
    yield from _of_head(done.about)
    rule = done.parts[0]
    if isinstance(rule, Correlation):
        return
    yield from _of_condition(rule)
    yield from _of_fields(rule, folder)


def _of_head(about: About) -> Iterator[str]:
    if not _is_uuid(about.id):
        yield "it has no id" if not about.id else f"its id '{about.id}' is no UUID"
    if about.level not in SEVERITIES:
        yield "it has no level" if not about.level else f"its level '{about.level}' is unknown"
    if about.status in ("deprecated", "unsupported"):
        yield f"its author calls it {about.status}"


def _is_uuid(text: str) -> bool:
    try:
        return bool(UUID(text))
    except ValueError:
        return False


def _of_condition(rule: Rule) -> Iterator[str]:
    matches = list(matches_of(rule.condition))
    if all(m.field is None for m in matches):
        yield "it has keywords only, which are looked for in every text of the event"
    if not _asks(rule.condition):
        yield "it only says what an event is not: nearly every event is one"
    for each in matches:
        yield from _of_value(each.value, each.field)


def _of_value(value: Value, field: str | None) -> Iterator[str]:
    named = f"'{field}'" if field else "a keyword"
    match value:
        case Regex(parts) if str(parts[0] if parts else "").startswith((".*", "^.*")):
            yield f"the pattern of {named} begins with .*, which says nothing"
        case Text(parts) if parts and all(p is Wildcard.MANY for p in parts):
            yield f"{named} may be anything: 'exists: true' says so"
        case AnyOf(values):
            for each in values:
                yield from _of_value(each, field)


def _asks(condition: Condition) -> bool:
    """True if an event has to have something."""
    match condition:
        case Match():
            return True
        case Not(child):
            return isinstance(child, Not) and _asks(child.child)
        case All(children):
            return any(_asks(c) for c in children)
        case Some(children):
            return all(_asks(c) for c in children)


def _of_fields(rule: Rule, folder: Folder) -> Iterator[str]:
    """Names the fields that are always NULL."""
    try:
        reading = folder.sources.reading(rule.source)
    except Unconvertible:  # it has been told
        return
    missing = [f for f in fields_of(rule.condition) if reading.find(f) is None]
    if missing:
        yield f"table '{reading.table.name}' has no column for {', '.join(missing)}: always NULL"
