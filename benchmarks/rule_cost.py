"""What `sql jobs --cost` says of rules, beside what they cost: what a server takes more with them, and
their share of what all of them need."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks import sigma
from benchmarks.page import Section, Table
from benchmarks.rules_real import one_pass
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.conformance.sigma import ALERTS, table_of

# Each server reads these copies of the events so many times; the first time is not counted.
COPIES, ROUNDS, PARTS = 2, 12, 2
# A server with each so many of the rules reads the columns that all of them read.
BASE = 25
_TOTALS = """CREATE TABLE totals (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true')"""
_TIME = ", ts AS TO_TIMESTAMP_LTZ(_id * 100, 3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
# Rules that cost more than others, each for a reason of its own.
_SPECIAL = {
    "writes each event": "INSERT INTO alerts SELECT CONCAT_WS('|', UPPER(Image), REVERSE(CommandLine), MD5(Hashes)), 'low', _id"
    " FROM process_creation WHERE Image IS NOT NULL",
    "computes with texts": "INSERT INTO alerts SELECT 'computes', 'low', _id FROM process_creation"
    " WHERE CHAR_LENGTH(REGEXP_REPLACE(LOWER(ParentCommandLine), '[aeiou]+', '')) > 900",
    "counts in windows": "INSERT INTO alerts SELECT Image, 'low', COUNT(*) FROM TABLE(TUMBLE(TABLE process_creation,"
    " DESCRIPTOR(ts), INTERVAL '1' MINUTE)) WHERE LOWER(Image) LIKE '%.exe' GROUP BY Image, window_start, window_end",
    "counts by key": "SET 'table.exec.state.ttl' = '1 h'; INSERT INTO totals SELECT Image, COUNT(DISTINCT CommandLine)"
    " FROM process_creation GROUP BY Image",
}


@dataclass
class _Side:
    """A server: what each pass took (CPU s an event), and what it said of its jobs meanwhile."""

    engine: Engine
    told: list[Mapping[str, float]] = field(default_factory=list)

    def run(self, copy: int) -> None:
        before = self.engine.costs_by_job()
        events, _ = one_pass(self.engine, [copy])
        after = self.engine.costs_by_job()
        self.told.append({j: (c.cpu_s - before[j].cpu_s) / events for j, c in after.items()})

    def whole(self) -> np.ndarray:
        """Returns what all jobs cost, by pass (µs an event)."""
        return np.array([1e6 * sum(t.values()) for t in self.told[COPIES:]])

    def told_of(self, jobs: Collection[str]) -> float:
        passes = [sum(t.get(j, 0.0) for j in jobs) for t in self.told[COPIES:]]
        return 1e6 * float(np.median(passes))


def _groups() -> dict[str, dict[str, str]]:
    """Returns the rules, by group and name: a fifth of the real ones each, and single ones."""
    rules = sigma.all_rules()
    parts = {
        f"part {n + 1} of the real rules": {r.job: r.sql for r in rules[n::PARTS]}
        for n in range(PARTS)
    }
    return parts | {name: {name.replace(" ", "_"): sql} for name, sql in _SPECIAL.items()}


@contextmanager
def _engine(jobs: Mapping[str, str]) -> Iterator[Engine]:
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        engine = Engine(Config(data=Path(folder), rows_per_read=4096))
        try:
            engine.broker.create_topic(sigma.TABLE)
            table = table_of(sigma.TABLE, sigma.log(), sigma.all_rules())
            table = table.replace("earliest-offset", "latest-offset").replace(
                ") WITH", f"{_TIME}) WITH", 1
            )
            texts = {"alerts": ALERTS, "totals": _TOTALS, "table": table, **jobs}
            made = engine.change(Request(Origin.SDK, {n: JobText(n, t) for n, t in texts.items()}))
            refused = [o.error for o in made.values() if o.error is not None]
            if refused:
                raise RuntimeError(f"{len(refused)} rules were refused: {refused[0]}")
            engine.start()
            yield engine
        finally:
            engine.close()


def run() -> Section:
    groups = _groups()
    whole, alone = _measure(groups)
    total = float(np.median(whole.whole()))
    shared = (total - sum(alone.values())) / sum(map(len, groups.values()))
    rows = []
    for name, jobs in groups.items():
        told, wanted = whole.told_of(jobs), alone[name] + len(jobs) * shared
        figures = [f"{v:.2f}" for v in (alone[name], wanted, told)]
        rows.append([name, f"{len(jobs)}", *figures, f"{told / wanted - 1:+.0%}"])
    columns = ["", "rules", "alone", "with its share", "told", "error"]
    about = (
        f"{len(sigma.all_rules()):,} SigmaHQ rules and {len(_SPECIAL)} that cost more, over real"
        " process creations in one server. Alone: what a server with few rules takes more with this"
        " one, and the server with all less without a half of them; pass by pass, the median of"
        f" {(ROUNDS - 1) * COPIES}. What no difference shows is shared by all, in equal parts. Told:"
        " what `sql jobs --cost` says."
    )
    notes = [f"All of it takes {total:.1f} µs of the CPU an event."]
    return Section(
        "rule_cost", "Cost by rule", about, [Table("CPU µs an event", columns, rows)], notes
    )


def _measure(groups: Mapping[str, Mapping[str, str]]) -> tuple[_Side, dict[str, float]]:
    """Returns a server with all rules after the passes, and what each group costs alone."""
    base = {r.job: r.sql for r in sigma.all_rules()[::BASE]}
    with ExitStack() as stack:

        def side(*jobs: Mapping[str, str]) -> _Side:
            engine = _engine({n: t for texts in jobs for n, t in texts.items()})
            return _Side(stack.enter_context(engine))

        whole, few = side(*groups.values()), side(base)
        pairs = {
            name: (side(base, jobs), few)
            if len(jobs) == 1
            else (whole, side(*(j for n, j in groups.items() if n != name)))
            for name, jobs in groups.items()
        }
        sides = list({id(s): s for pair in pairs.values() for s in pair}.values())
        for turn in range(COPIES * ROUNDS):
            for number in range(len(sides)):  # each is first once in a while
                sides[(number + turn) % len(sides)].run(turn % COPIES)
    found = {n: more.whole() - less.whole() for n, (more, less) in pairs.items()}
    return whole, {name: float(np.median(passes)) for name, passes in found.items()}
