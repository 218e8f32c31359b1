"""Rules as statements: INSERT INTO alerts SELECT … FROM the table of the log source WHERE …."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parser.writer.names import backticked
from sqlengine.sigma.alerts import Alerts, alerts_of, event_value, rule_value
from sqlengine.sigma.conditions import where
from sqlengine.sigma.correlations import correlation_statement
from sqlengine.sigma.files import base_name
from sqlengine.sigma.heads import head
from sqlengine.sigma.mappings import Mappings
from sqlengine.sigma.reading import Unconvertible
from sqlengine.sigma.rules import About, Correlation, Rule
from sqlengine.sigma.ruleset import Ruleset
from sqlengine.sigma.sources import Sources
from sqlengine.sigma.tables import EventTable


@dataclass(frozen=True)
class Done:
    """A rule, and its text as that of a job, or why there is none. `parts`: all that the text came
    from."""

    about: About
    job: str
    sql: str = ""
    error: Unconvertible | None = None
    parts: tuple[Rule | Correlation, ...] = ()


@dataclass(frozen=True)
class Conversion:
    """All rules of a folder."""

    done: tuple[Done, ...]

    @property
    def converted(self) -> list[Done]:
        return [d for d in self.done if d.error is None]

    @property
    def refused(self) -> list[Done]:
        return [d for d in self.done if d.error is not None]


@dataclass(frozen=True)
class Converter(Sources):
    """Writes the statements of rules."""

    def convert(self, rule: Rule | Correlation) -> str:
        """Returns the text of a rule's job."""
        alerts = alerts_of(self.mappings.alerts, self.tables)
        source = rule.source if isinstance(rule, Rule) else None
        if isinstance(rule, Rule):
            statement = self._statement(rule, alerts)
        else:
            statement = correlation_statement(rule, self, alerts)
        return head(rule.about, source, self.mappings.owner, self.mappings.statuses) + statement

    def _statement(self, rule: Rule, alerts: Alerts) -> str:
        reading = self.reading(rule.source)
        values = {
            c.name: event_value(c, rule.about, reading.table)
            if c.of_event
            else rule_value(c, rule.about)
            for c in alerts.columns
        }
        test = where(rule.condition, reading)
        return alerts.statement(values, f"{backticked(reading.table.name)}\nWHERE {test}")


def convert_all(
    rules: Ruleset,
    mappings: Mappings,
    tables: Mapping[str, EventTable],
    known: Mapping[tuple[str, int], Done] | None = None,
) -> Conversion:
    """Converts all rules that give alerts. `known`: what came of them before, with these mappings
    and tables."""
    converter = Converter(rules, mappings, tables)
    wanted = rules.alerting()
    names = job_names([r.about for r in (*rules.unread, *wanted)])
    done = [
        Done(u.about, names[u.about.origin], error=Unconvertible(u.reason)) for u in rules.unread
    ]
    taken: dict[str, str] = {}
    for rule in wanted:
        job = names[rule.about.origin]
        if taken.setdefault(job, rule.about.file) != rule.about.file:
            done.append(Done(rule.about, job, error=_named_twice(job, taken[job])))
            continue
        parts = (rule, *_members(rule, rules))
        before = (known or {}).get(rule.about.origin)
        if before is not None and (before.job, before.parts) == (job, parts):
            done.append(before)
        else:
            done.append(_done(converter, rule, job, parts))
    return Conversion(tuple(done))


def _named_twice(job: str, file: str) -> Unconvertible:
    return Unconvertible(f"'{file}' gives the job '{job}', too", hint="rename one of them")


def _members(rule: Rule | Correlation, rules: Ruleset) -> list[Rule | Correlation]:
    """Returns the rules that a correlation is made of, each once."""
    found: dict[tuple[str, int], Rule | Correlation] = {}
    waiting = [rule]
    while waiting:
        of = waiting.pop()
        for reference in of.rules if isinstance(of, Correlation) else ():
            member = rules.named(reference)
            if member is not None and member.about.origin not in found:
                found[member.about.origin] = member
                waiting.append(member)
    return list(found.values())


def _done(
    converter: Converter, rule: Rule | Correlation, job: str, parts: tuple[Rule | Correlation, ...]
) -> Done:
    try:
        return Done(rule.about, job, converter.convert(rule), parts=parts)
    except Unconvertible as error:
        return Done(rule.about, job, error=error, parts=parts)
    except RecursionError:
        deep = Unconvertible("it is nested too deeply")
        return Done(rule.about, job, error=deep, parts=parts)


def job_names(rules: Sequence[About]) -> dict[tuple[str, int], str]:
    """Returns the names of jobs: the path of the file with dots; with a number, where a file has
    several rules."""
    several = Counter(r.file for r in rules)
    return {
        r.origin: base_name(r.file) + (f".{r.place}" if several[r.file] > 1 else "") for r in rules
    }
