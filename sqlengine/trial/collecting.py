"""Finds rules and their cases: `rule.sql`, `rule.test.yaml` beside it, `_tables.sql` above."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from parser.errors import ParseError, PlanError, SqlError, UnknownObject
from parser.rule_head import rule_head
from planner.catalog import Catalog
from planner.rule_settings import rule_in, rule_settings
from sqlengine.functions.library import Library
from sqlengine.jobs.planning import DEFINES
from sqlengine.trial.cases import SUFFIX, CaseFile, check_place, read_cases
from sqlengine.trial.rules import StandIns, TrialRule, plan_rule


@dataclass(frozen=True)
class RuleText:
    """The text of a rule, as it stands in a file."""

    name: str
    file: str | None
    text: str


@dataclass(frozen=True)
class Collected:
    """Rules with their cases, in the order of their names. `broken`: texts that cannot be planned,
    and files of cases that cannot be read, by the name of the rule."""

    rules: Mapping[str, TrialRule]
    files: Mapping[str, Sequence[CaseFile]]
    broken: Mapping[str, SqlError]
    texts: Mapping[str, RuleText] = field(default_factory=dict)


def collect(
    texts: Sequence[RuleText],
    given: Sequence[RuleText],
    library: Library | None,
    names: frozenset[str],
    stand_ins: StandIns | None = None,
) -> Collected:
    """Plans the rules of these names and reads their cases. `texts` may define what the rules need,
    those that are `given` do nothing else. `stand_ins` says over which tables (None: in memory)."""
    known, broken = _with_definitions([*given, *texts], library, stand_ins or StandIns())
    rules: dict[str, TrialRule] = {}
    files: dict[str, Sequence[CaseFile]] = {}
    for text in sorted((t for t in texts if t.name in names), key=lambda t: t.name):
        try:
            rule = plan_rule(text.name, text.text, text.file, known, library)
            if rule.sinks:
                rules[text.name], files[text.name] = rule, _cases_of(text)
        except SqlError as error:
            broken[text.name] = error
    by_name = {t.name: t for t in (*given, *texts)}
    return Collected(rules, files, _with_causes(broken, by_name), by_name)


def _with_causes(
    broken: Mapping[str, SqlError], texts: Mapping[str, RuleText]
) -> dict[str, SqlError]:
    """Returns errors in which one about a name that a text in error defines says so, in place of
    advice that would mislead."""
    causes = [
        texts[name]
        for name, error in broken.items()
        if not isinstance(error, UnknownObject) and DEFINES.search(texts[name].text)
    ]
    return {name: _with_cause(error, texts[name], causes) for name, error in broken.items()}


def _with_cause(error: SqlError, text: RuleText, causes: Sequence[RuleText]) -> SqlError:
    place = error.position
    if place is None or not isinstance(error, UnknownObject):
        return error
    line = text.text.split("\n")[place.line - 1]
    name = line[place.column - 1 :][: place.length].rpartition(".")[2].strip("`")
    word = re.compile(rf"\b{re.escape(name)}\b", re.IGNORECASE)
    cause = next((c for c in causes if name and word.search(c.text)), None)
    if cause is None:
        return error
    message = f"'{name}' is in '{cause.file or cause.name}', which has an error itself"
    return PlanError(message, position=place)


def _with_definitions(
    texts: Sequence[RuleText], library: Library | None, known: StandIns
) -> tuple[StandIns, dict[str, SqlError]]:
    """The tables of all that the texts define, each planned once what it needs is there."""
    broken = dict[str, SqlError]()
    waiting = [t for t in texts if DEFINES.search(t.text)]
    while waiting:
        missing = []
        for text in waiting:
            try:
                made = plan_rule(text.name, text.text, text.file, known, library).catalog
                known = replace(made, catalog=Catalog(made.catalog.objects))
                broken.pop(text.name, None)
            except UnknownObject as error:
                broken[text.name] = error
                missing.append(text)
            except SqlError as error:
                broken[text.name] = error
        if len(missing) == len(waiting):
            break
        waiting = missing
    return known, broken


def _cases_of(text: RuleText) -> list[CaseFile]:
    """The cases in the file beside a rule, and in those that its head names."""
    if text.file is None:
        return []
    file = Path(text.file)
    beside = file.with_name(file.name.removesuffix(".sql") + SUFFIX)
    head = rule_head(text.text) or {}
    rule = rule_in(rule_settings(head))
    named = [file.parent / name for name in ([] if rule is None else rule.tests)]
    for path in named:
        check_place(path, file)
        if not path.is_file():
            raise ParseError(
                f"the file of cases '{path}' does not exist",
                hint="'tests' in the head of a rule names files, from the rule's folder on",
                position=head["tests"].position,
            ).in_file(text.file)
    found = [beside, *named] if beside.is_file() else named
    return [read_cases(path) for path in dict.fromkeys(found)]
