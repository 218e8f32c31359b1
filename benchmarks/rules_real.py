"""1,414 real rules over real process creations: JSON in, alerts out, through topics of the embedded
broker.

Figures are events per CPU second of the one process that does everything: read, decode, match,
encode, append, and the record of each epoch. What produces the events is not counted. The first
pass warms up and is not counted either."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from benchmarks import sigma
from benchmarks.copies import read_fields, repetition
from benchmarks.measure import cpu_of, own_mb
from benchmarks.page import Section, Table
from rules.options import Options
from sqlengine.engine import Engine
from sqlengine.expressions import compile_expression, truth
from sqlengine.operators.rules import RulesOperator
from sqlengine.operators.scan import ScanOperator
from tests.conformance.sigma import counters, drain, read_alerts

COPIES = 10
# The switch that is off, and how many copies are enough.
VARIANTS: tuple[tuple[str, Options, int], ...] = (
    ("all parts", Options(), COPIES),
    ("without value caches", Options(cache=False), COPIES),
    ("without Hyperscan", Options(hyperscan=False), 2),
    ("without access sets", Options(access=False), 2),
)
BATCHES, BATCH_COPIES = (4096, 512, 64), 5


@dataclass(frozen=True)
class Run:
    """Copies 1 to `copies` after a pass that warmed up. `same_again`: the last copy once more, all
    its values known."""

    events: int
    cpu_s: float
    same_again: float
    hit_rate: float
    candidates: float
    verified: float
    memory_mb: float

    @property
    def rate(self) -> float:
        return self.events / self.cpu_s


def run() -> Section:
    runs = {name: _measure(options, copies) for name, options, copies in VARIANTS}
    alone, shared = _rule_by_rule()
    full = runs["all parts"]
    rows = [
        [
            n,
            f"{r.rate:,.0f}",
            f"{1e6 / r.rate:.1f}",
            f"{full.rate / r.rate:.1f}×",
            f"{r.hit_rate:.0%}",
            f"{r.candidates:.0f}",
        ]
        for n, r in runs.items()
    ]
    for name, rate in (
        ("rule by rule", alone),
        ("rule by rule, equal parts computed once", shared),
    ):
        rows.append([name, f"{rate:,.0f}", f"{1e6 / rate:.1f}", f"{full.rate / rate:.1f}×", "", ""])
    columns = [
        "",
        "events per CPU second",
        "CPU µs an event",
        "all parts are faster by",
        "cache hits",
        "candidates an event",
    ]
    notes = [
        (
            f"Alerts of every run are the expected ones, {sum(sigma.expected().values()):,} a pass,"
            " each once."
        ),
        (
            f"The same copy again, all values known: {full.same_again:,.0f} events per CPU second,"
            " as a replay would show."
        ),
        (
            f"Verified pairs of event and rule: {full.verified:.0f} an event, of"
            f" {len(sigma.all_rules()):,}."
        ),
        f"Memory at the end of the first run, with the events to be sent: {full.memory_mb:.0f} MB.",
        "Cache hits: of the distinct values of each batch, over all fields.",
        (
            "Rule by rule: each rule's own expression over the decoded batch, with the same"
            " kernels; matching only."
        ),
    ]
    return Section(
        "rules_real",
        "Real rules, real events",
        f"{len(sigma.all_rules()):,} SigmaHQ rules for Windows process creations, each a job of its"
        f" own (`INSERT INTO alerts SELECT … WHERE …`), over {len(sigma.log()):,} real events of"
        f" {sum(map(len, sigma.log())) / len(sigma.log()):,.0f} bytes and {COPIES} copies with"
        " changed ids, times and tokens. JSON records are read from a topic, alerts appended to"
        " another as JSON, each epoch recorded; one process.",
        [Table("Rates", columns, rows), _batches(), _repetition(COPIES)],
        notes,
    )


def _batches() -> Table:
    """Small batches, as a stream at its ease has them: what repeats does so in other batches, and
    caches count."""
    rows = []
    for batch in BATCHES:
        cached, plain, hits, rests = _side_by_side(batch)
        rows.append([f"{batch:,}", f"{cached:,.0f}", f"{plain:,.0f}", f"{hits:.0%}", f"{rests}"])
    columns = [
        "events a batch",
        "events per CPU second",
        "without value caches",
        "cache hits",
        "caches at rest",
    ]
    return Table("Smaller batches", columns, rows)


def _side_by_side(batch: int) -> tuple[float, float, float, int]:
    """Events per CPU second with and without caches, in turns, so that both see the same moods of
    the machine; the hit rate, and how many caches found out that they do not pay."""
    with (
        sigma.engine(Options(), batch) as cached,
        sigma.engine(Options(cache=False), batch) as plain,
    ):
        engines = (cached, plain)
        rates: tuple[list[float], list[float]] = ([], [])
        for copy in range(BATCH_COPIES + 1):
            for engine, seen in zip(engines, rates, strict=True):
                events, cpu = one_pass(engine, [copy])
                seen.append(events / cpu)
        done = counters(cached)
    with_caches, without = (float(np.median(seen[1:])) for seen in rates)
    looked_up = done["cache_hits"] + done["cache_misses"] + done["cache_skipped"]
    return with_caches, without, done["cache_hits"] / max(1, looked_up), done["cache_rests"]


def _measure(options: Options, copies: int, batch: int = 4096) -> Run:
    with sigma.engine(options, batch) as engine:
        one_pass(engine, [0])
        before = counters(engine)
        events, cpu = one_pass(engine, list(range(1, copies + 1)))
        after = counters(engine)
        found = Counter((rule, int(event)) for rule, event in read_alerts(engine))
        again, again_cpu = one_pass(engine, [copies])
        memory = own_mb()
    if found != sigma.expected_of(list(range(copies + 1))):
        raise AssertionError(
            f"{found.total()} alerts, not {sigma.expected_of(list(range(copies + 1))).total()}"
        )
    done = {k: after[k] - before[k] for k in after}
    looked_up = done["cache_hits"] + done["cache_misses"] + done["cache_skipped"]
    return Run(
        events,
        cpu,
        again / again_cpu,
        done["cache_hits"] / max(1, looked_up),
        done["candidates"] / events,
        done["verifications"] / events,
        memory,
    )


def one_pass(engine: Engine, copies: list[int]) -> tuple[int, float]:
    """Number of events, and the CPU seconds from when the last of them is in the topic."""
    batches = [sigma.lines(n) for n in copies]

    def append() -> float:
        for batch in batches:
            engine.broker.append(sigma.TABLE, 0, batch, timestamp_ms=engine.now_ms())
        return time.process_time()

    start = engine.graph.loop.call(append)
    drain(engine)
    return sum(map(len, batches)), time.process_time() - start


def _rule_by_rule() -> tuple[float, float]:
    """Events per CPU second of each rule's expression by itself, and with a memo for what rules
    have in common."""
    with sigma.engine() as engine:
        running = engine.graph.executor.running.values()
        scan = next(n.operator for n in running if isinstance(n.operator, ScanOperator))
        rules = next(n.operator for n in running if isinstance(n.operator, RulesOperator))
        source = next(iter(engine.graph.runner.inputs.running.values()))
        one_pass(engine, [0])
        chunk = source.source.read("0", 0, max_rows=len(sigma.log()))
        assert chunk is not None
        ((_, batch),) = scan.process(0, source.batch(chunk, 0, 0))
    expressions = [compile_expression(r.predicate) for r in rules.compiled.plan.rules.values()]

    def evaluate(shared: bool) -> int:
        memo: dict[object, object] = {}
        rows = 0
        for expression in expressions:
            own = replace(batch, memo=memo if shared else {})
            rows += int(np.count_nonzero(truth(expression(own), batch.num_rows)))
        return rows

    evaluate(True)
    rates = []
    for shared in (False, True):
        alerts, cpu = cpu_of(lambda: evaluate(shared))  # noqa: B023  called at once
        if alerts != sum(sigma.expected().values()):
            raise AssertionError(f"rule by rule found {alerts} alerts")
        rates.append(batch.num_rows / cpu)
    return rates[0], rates[1]


def _repetition(copies: int) -> Table:
    """Of the fields that rules read, how many values stood in the stream before."""
    fields = read_fields(sigma.conditions())
    once = repetition(sigma.copy(0), fields)
    stream = repetition([e for n in range(copies + 1) for e in sigma.copy(n)], fields)
    shown = sorted((f for f in fields if once[f].values), key=lambda f: once[f].share)
    rows = [
        [f, f"{once[f].values:,}", f"{once[f].share:.1%}", f"{stream[f].share:.1%}"] for f in shown
    ]
    columns = ["field", "values in a pass", "repetition in one pass", f"with {copies} copies"]
    return Table("Repetition of values (share of values that stood in a row before)", columns, rows)
