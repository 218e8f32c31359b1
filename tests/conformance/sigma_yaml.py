"""A folder of event tables and rules as their authors wrote them: converted, and run as
`tests.conformance.sigma` runs SQL."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sqlengine.sigma.conversion import Conversion, convert_all
from sqlengine.sigma.folder import rule_files
from sqlengine.sigma.mappings import AlertForm, Mappings, SourceTable, load_mappings
from sqlengine.sigma.parsing import read
from sqlengine.sigma.rules import Correlation, Document, Rule, fields_of
from sqlengine.sigma.ruleset import Ruleset, ruleset
from sqlengine.sigma.tables import defined_tables
from tests.conformance.sigma import (
    ALERTS,
    Report,
    column_types,
    create_table,
    judge,
    records,
    run,
    tables,
)
from tests.conformance.sigma import Rule as Expected

ALERT = AlertForm("alerts", {"rule_id": "{id}", "level": "{level}", "event_id": "_id"})
# Columns of logs that tell when something happened; the first that an event has.
TIMES = ("_ts", "@timestamp", "UtcTime", "TimeCreated", "EventTime", "timestamp")
# The table of each document, by where that stands.
Homes = dict[tuple[str, int], str | None]


@dataclass(frozen=True)
class Given:
    """A text with rules, and the table that they read, where that is said."""

    yaml: str
    file: str
    table: str | None = None
    id: str = ""

    def documents(self) -> list[Document]:
        """Its documents; a single one without an id gets that of the text."""
        found = read(self.yaml, self.file)
        if len(found) != 1 or found[0].about.id or not self.id:
            return found
        return [replace(found[0], about=replace(found[0].about, id=self.id))]


def run_sigma_yaml(path: Path, folder: Path) -> Report:
    """Converts all rules, runs them over all events, and compares with the expected alerts."""
    events = {t: records(folder, t) for t in tables(folder)}
    given = list(_given(path))
    found = [(g.table, d) for g in given for d in g.documents()]
    rules = ruleset(d for _, d in found)
    mappings = _mappings(found)
    homes = {d.about.origin: t or _home(d, rules, mappings, set(events)) for t, d in found}
    texts = _tables(rules, homes, events)
    sql = ";\n".join([ALERTS, *texts.values()])
    conversion = convert_all(rules, mappings, defined_tables(sql))
    texts |= {f"rule.{c.job}": c.sql for c in conversion.converted}
    correlations = {c.about.key for c in rules.correlations}
    drained = [f"rule.{c.job}" for c in conversion.converted if c.about.key in correlations]
    report = Report()
    refused = run(report, texts, _in_order(events, bool(drained)), drained=drained)
    refused |= {f"rule.{r.job}": str(r.error) for r in conversion.refused}
    judge(report, folder, _by_table(conversion, homes, events, report), refused)
    return report


def _given(path: Path) -> Iterable[Given]:
    if path.is_dir():
        for file in rule_files(path):
            yield Given(file.read_text(encoding="utf-8"), str(file.relative_to(path)))
        return
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode().split("\n")
    for number, line in enumerate(filter(str.strip, lines), 1):
        row = json.loads(line)
        yield Given(row["yaml"], f"{number}.yml", row.get("table"), row.get("id") or "")


def _mappings(found: list[tuple[str | None, Document]]) -> Mappings:
    """Tables as they are said, else those of the taxonomy."""
    said = {
        document.source: SourceTable(document.source, table)
        for table, document in found
        if table is not None and isinstance(document, Rule)
    }
    common = load_mappings(["sigma"])
    exact = sorted(said.values(), key=lambda s: -len(str(s.source).split(", ")))
    return replace(common, sources=(*exact, *common.sources), alerts=ALERT)


def _home(document: Document, rules: Ruleset, mappings: Mappings, known: set[str]) -> str | None:
    """The table of a rule; of a correlation that of its first rule."""
    while isinstance(document, Correlation):
        member = rules.named(document.rules[0]) if document.rules else None
        if member is None:
            return None
        document = member
    if not isinstance(document, Rule):
        return None
    return next((name for name, _ in mappings.tables_for(document.source) if name in known), None)


def _tables(rules: Ruleset, homes: Homes, events: dict[str, list[bytes]]) -> dict[str, str]:
    """The definitions of the tables, with the columns that only rules name, and with a time where
    there are correlations."""
    named: dict[str, list[str]] = {t: [] for t in events}
    everywhere = [n for c in rules.correlations for n in _fields_of(c)]
    for rule in rules.rules:
        if (home := homes.get(rule.about.origin)) in named:
            named[home] += fields_of(rule.condition)
    texts = {}
    for table, lines in events.items():
        columns = column_types(lines, [*named[table], *everywhere])
        texts[f"table.{table}"] = create_table(
            table, columns, _time(columns) if rules.correlations else ""
        )
    return texts


def _fields_of(correlation: Correlation) -> list[str]:
    aliased = [f for fields in correlation.aliases.values() for f in fields.values()]
    own = (*correlation.group_by, *correlation.fields)
    return [*aliased, *(f for f in own if f not in correlation.aliases)]


def _time(columns: dict[str, str]) -> str:
    """A computed column of event time and its watermark."""
    found = [n for n in TIMES if columns.get(n) == "STRING"]
    if not found:
        return ""
    tried = ", ".join(
        f"TRY_CAST(REPLACE(SUBSTRING(`{n}` FROM 1 FOR 23), 'T', ' ') AS TIMESTAMP(3))"
        for n in found
    )
    first = "TIMESTAMP '1970-01-01 00:00:00.000'"
    return (
        f", `sigma_time` AS COALESCE({tried}, {first}), WATERMARK FOR `sigma_time` AS `sigma_time`"
    )


def _in_order(events: dict[str, list[bytes]], by_time: bool) -> dict[str, list[bytes]]:
    """The events by their time, where that matters: none is late then."""
    if not by_time:
        return events

    def moment(line: bytes) -> str:
        event = json.loads(line)
        found = next((event[n] for n in TIMES if isinstance(event.get(n), str)), "")
        return str(found)[:23].replace("T", " ")

    return {t: sorted(lines, key=moment) for t, lines in events.items()}


def _by_table(
    conversion: Conversion,
    homes: Homes,
    events: dict[str, list[bytes]],
    report: Report,
) -> dict[str, list[Expected]]:
    """The rules to judge; those without a table are not applicable."""
    wanted: dict[str, list[Expected]] = {t: [] for t in events}
    for each in (*conversion.converted, *conversion.refused):
        home = homes.get(each.about.origin)
        if home in wanted:
            rule = Expected(f"rule.{each.job}", each.about.key, each.about.level, "", home)
            wanted[home].append(rule)
        else:
            report.not_applicable += 1
            report.lines.append(f"N/A {each.about.key}: no table of the folder is its log source's")
    return wanted
