"""A folder of event tables and rules, run end to end: JSON records into topics, rules as jobs,
alerts out of a topic."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlglot import exp

from parser import parse_condition
from parser.errors import SqlError
from rules.options import Options
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from sqlengine.operators.rules import RulesOperator

SWITCHES = (
    "cache",
    "hyperscan",
    "joined_scan",
    "exact_scan",
    "access",
    "learned_access",
    "dense_fallback",
)
ALERTS = """CREATE TABLE alerts (rule_id STRING, level STRING, event_id BIGINT)
WITH ('connector' = 'topic', 'topic' = 'alerts', 'format' = 'json')"""


@dataclass(frozen=True)
class Rule:
    """One rule of the corpus; `job` is its name in the engine."""

    job: str
    id: str
    level: str
    where: str
    table: str

    @property
    def sql(self) -> str:
        id_, level = self.id.replace("'", "''"), self.level.replace("'", "''")
        return (
            f"INSERT INTO alerts SELECT '{id_}' AS rule_id, '{level}' AS level, _id AS event_id "
            f"FROM `{self.table}` WHERE {self.where}"
        )


@dataclass
class Report:
    """One line a rule, all alerts (rule id, event id) sorted, and what the engine counted."""

    lines: list[str] = field(default_factory=list)
    alerts: list[tuple[str, str]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    passed: int = 0
    failed: int = 0
    not_applicable: int = 0


def tables(folder: Path) -> list[str]:
    """Names of the tables that have events: not those of files with rules."""
    found = (p for p in folder.glob("*.jsonl.gz") if not _has_rules(p))
    return sorted(p.name.removesuffix(".jsonl.gz") for p in found)


def _has_rules(path: Path) -> bool:
    """Whether a file has rules as YAML, a line each."""
    with gzip.open(path, "rb") as file:
        line = file.readline()
    return bool(line.strip()) and {"yaml", "id"} <= json.loads(line).keys()


def records(folder: Path, table: str) -> list[bytes]:
    """The table's events as they stand in the file."""
    with gzip.open(folder / f"{table}.jsonl.gz", "rb") as file:
        return file.read().splitlines()


def rules(folder: Path, table: str) -> list[Rule]:
    lines = (folder / f"{table}.rules.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines if line.strip()]
    return [
        Rule(f"{table}.{i}", r["id"], r.get("level") or "", r["where"], table)
        for i, r in enumerate(found)
    ]


def column_types(events: Iterable[bytes], named: Iterable[str]) -> dict[str, str]:
    """The columns of a table: BIGINT where all values are JSON integers, STRING else and for those
    that only rules name."""
    integers: dict[str, bool] = {}
    for event in events:
        for name, value in json.loads(event).items():
            is_integer = isinstance(value, int) and not isinstance(value, bool)
            integers[name] = integers.get(name, True) and (is_integer or value is None)
    for name in named:
        integers.setdefault(name, False)
    return {n: "BIGINT" if whole else "STRING" for n, whole in integers.items()}


def create_table(table: str, columns: dict[str, str], more: str = "") -> str:
    """The table's definition, with `more` behind its columns."""
    listed = ", ".join(f"`{n}` {kind}" for n, kind in columns.items())
    return (
        f"CREATE TABLE `{table}` ({listed}{more}) WITH ('connector' = 'topic', 'topic' = '{table}', "
        f"'format' = 'json', 'scan.startup.mode' = 'earliest-offset')"
    )


def table_of(table: str, events: Iterable[bytes], found: Iterable[Rule]) -> str:
    """The definition of the table that has these events, and all columns that the rules name."""
    named = [name for rule in found for name in _columns(rule.where)]
    return create_table(table, column_types(events, named))


def _columns(where: str) -> set[str]:
    try:
        return {c.name for c in parse_condition(where).find_all(exp.Column)}
    except SqlError:
        return set()


def run_sigma(folder: Path, without: frozenset[str] = frozenset()) -> Report:
    """Runs all rules of a folder as jobs over all its events and compares with the expected
    alerts."""
    wanted = {t: rules(folder, t) for t in tables(folder)}
    events = {t: records(folder, t) for t in wanted}
    texts = {}
    for table, found in wanted.items():
        texts[f"table.{table}"] = table_of(table, events[table], found)
        texts |= {r.job: r.sql for r in found}
    report = Report()
    refused = run(report, texts, events, without)
    judge(report, folder, wanted, refused)
    return report


def run(
    report: Report,
    texts: dict[str, str],
    events: dict[str, list[bytes]],
    without: frozenset[str] = frozenset(),
    drained: Iterable[str] = (),
) -> dict[str, str]:
    """Runs jobs over all events and keeps their alerts in the report; jobs in `drained` are told
    that no more events come. Gives the reasons of those that were refused, by job."""
    switched: dict[str, Any] = dict.fromkeys(without, False)
    options = replace(Options(), **switched)
    with tempfile.TemporaryDirectory(prefix="conformance-") as scratch:
        engine = Engine(Config(data=Path(scratch), rules=options))
        try:
            refused = submit(engine, texts, events)
            engine.start()
            for table, lines in events.items():
                for start in range(0, len(lines), 1000):
                    engine.broker.append(
                        table, 0, lines[start : start + 1000], timestamp_ms=engine.now_ms()
                    )
            drain(engine)
            for job in drained:
                if job not in refused:
                    engine.drain_job(job, None)
            report.alerts = sorted(read_alerts(engine))
            report.counters = counters(engine)
        finally:
            engine.close()
    return refused


def submit(engine: Engine, texts: dict[str, str], tables: Iterable[str]) -> dict[str, str]:
    """Submits tables and rules as one change; gives the reasons of those that were refused, by
    job."""
    for topic in ("alerts", *tables):
        engine.broker.create_topic(topic)
    jobs = {name: JobText(name, sql) for name, sql in {"alerts": ALERTS, **texts}.items()}
    outcomes = engine.change(Request(Origin.SDK, jobs))
    return {n: str(o.error) for n, o in outcomes.items() if o.status == "refused"}


def drain(engine: Engine) -> None:
    """Waits until all sources are read to their end."""
    runner = engine.graph.runner
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        if engine.graph.loop.problem is not None:
            raise RuntimeError(engine.graph.loop.problem)
        behind = [
            shard
            for s in list(runner.inputs.running.values())
            for shard, at in list(s.positions.items())
            if at < (s.source.end(shard) or 0)
        ]
        if not behind:
            engine.graph.loop.call(lambda: None)
            return
        time.sleep(0.05)
    raise TimeoutError("the rules did not finish")


def read_alerts(engine: Engine) -> Iterator[tuple[str, str]]:
    """(rule id, event id) of all alerts in the topic."""
    offset = 0
    while (found := engine.broker.read("alerts", 0, offset)) is not None:
        for value in found.values.to_pylist():
            alert = json.loads(value)
            yield alert["rule_id"], str(alert["event_id"])
        offset = found.next_offset


def counters(engine: Engine) -> dict[str, int]:
    """What all sets of rules counted."""
    totals: Counter[str] = Counter()
    for node in engine.graph.executor.running.values():
        if isinstance(node.operator, RulesOperator):
            totals.update(node.operator.compiled.ruleset.counters.as_dict())
    return dict(totals)


def judge(
    report: Report, folder: Path, wanted: dict[str, list[Rule]], refused: dict[str, str]
) -> None:
    """Compares the alerts of rules, by table, with the expected ones of the folder."""
    found: dict[str, Counter[str]] = {}
    for rule_id, event in report.alerts:
        found.setdefault(rule_id, Counter())[event] += 1
    for table, table_rules in wanted.items():
        path = folder / f"{table}.expected.tsv"
        if not path.exists():
            report.not_applicable += len(table_rules)
            report.lines += [f"N/A {table}/{r.id}: there is no {path.name}" for r in table_rules]
            continue
        expected: dict[str, Counter[str]] = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            rule_id, _, event = line.partition("\t")
            expected.setdefault(rule_id, Counter())[event] += 1
        for rule in table_rules:
            _verdict(
                report,
                rule,
                expected.get(rule.id, Counter()),
                found.get(rule.id, Counter()),
                refused,
            )


def _verdict(
    report: Report, rule: Rule, expected: Counter[str], found: Counter[str], refused: dict[str, str]
) -> None:
    name = f"{rule.table}/{rule.id}"
    why = refused.get(rule.job) or refused.get(f"table.{rule.table}")
    if why is None and found != expected:
        missing, extra = (
            sorted((expected - found).elements()),
            sorted((found - expected).elements()),
        )
        why = f"{len(missing)} alerts missing {missing[:3]}, {len(extra)} too many {extra[:3]}"
    if why is None:
        report.passed += 1
        report.lines.append(f"PASS {name}")
    else:
        report.failed += 1
        report.lines.append(f"FAIL {name}: {why}")
