"""Finds rules and their cases: `rule.sql`, `rule.test.yaml` beside it, `_tables.sql` above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from parser.errors import ParseError, SqlError, UnknownObject
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
    return Collected(rules, files, broken, {t.name: t for t in (*given, *texts)})


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
    rule = rule_in(rule_settings(rule_head(text.text) or {}))
    named = [file.parent / name for name in ([] if rule is None else rule.tests)]
    for path in named:
        check_place(path, file)
        if not path.is_file():
            raise ParseError(
                f"the file of cases '{path}' does not exist",
                hint="'tests' in the head of a rule names files, from the rule's folder on",
            ).in_file(text.file)
    found = [beside, *named] if beside.is_file() else named
    return [read_cases(path) for path in dict.fromkeys(found)]
