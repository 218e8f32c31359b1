"""Rules as statements: INSERT INTO alerts SELECT … FROM the table of the log source WHERE …."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from sqlengine.sigma.alerts import Alerts, alerts_of, event_value, rule_value
from sqlengine.sigma.conditions import where
from sqlengine.sigma.heads import head
from sqlengine.sigma.mappings import Mappings
from sqlengine.sigma.reading import Reading, Unconvertible
from sqlengine.sigma.rules import About, Correlation, LogSource, Rule, Unread
from sqlengine.sigma.ruleset import Ruleset
from sqlengine.sigma.tables import EventTable, quoted


@dataclass(frozen=True)
class Converted:
    """A rule as the text of a job."""

    about: About
    job: str
    sql: str


@dataclass(frozen=True)
class NotConverted:
    about: About
    job: str
    error: Unconvertible


@dataclass(frozen=True)
class Conversion:
    """All rules of a folder: those that are jobs now, and the others with the reason."""

    converted: tuple[Converted, ...]
    refused: tuple[NotConverted, ...]


@dataclass(frozen=True)
class Converter:
    """Knows the tables that there are, and the mapping of log sources to them."""

    rules: Ruleset
    mappings: Mappings
    tables: Mapping[str, EventTable]

    def reading(self, source: LogSource) -> Reading:
        """Returns what rules of a log source read. Unconvertible where no table is there."""
        tried = []
        for name, chosen in self.mappings.tables_for(source):
            if name in self.tables:
                return self.mappings.reading(chosen, self.tables[name])
            tried.append(name)
        if not tried:
            raise Unconvertible(
                f"the mapping has no table for log source {source}",
                hint="add one under 'sources' of the mapping",
            )
        told = " or ".join(f"'{n}'" for n in dict.fromkeys(tried))
        raise Unconvertible(
            f"table {told} of log source {source} is not defined", hint="define it in _tables.sql"
        )

    def convert(self, rule: Rule | Correlation) -> str:
        """Returns the text of a rule's job."""
        from sqlengine.sigma.correlations import correlation_statement

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
        return alerts.statement(values, f"{quoted(reading.table.name)}\nWHERE {test}")


def convert_all(
    rules: Ruleset, mappings: Mappings, tables: Mapping[str, EventTable]
) -> Conversion:
    """Converts all rules that give alerts."""
    converter = Converter(rules, mappings, tables)
    wanted = rules.alerting()
    names = job_names([r.about for r in wanted])
    converted: list[Converted] = []
    refused = [NotConverted(u.about, _base(u.about.file), _told(u)) for u in rules.unread]
    for rule, job in zip(wanted, names, strict=True):
        try:
            converted.append(Converted(rule.about, job, converter.convert(rule)))
        except Unconvertible as error:
            refused.append(NotConverted(rule.about, job, error))
    return Conversion(tuple(converted), tuple(refused))


def _told(unread: Unread) -> Unconvertible:
    return Unconvertible(unread.reason)


def job_names(rules: list[About]) -> list[str]:
    """Returns the names of jobs: the path of the file with dots; with a number, where a file has
    several rules."""
    several = Counter(r.file for r in rules)
    return [
        _base(r.file) if several[r.file] == 1 else f"{_base(r.file)}.{r.place}" for r in rules
    ]


def _base(file: str) -> str:
    path = PurePath(file)
    return ".".join((*path.parts[:-1], path.stem if path.suffix in (".yml", ".yaml") else path.name))
