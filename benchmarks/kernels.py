"""What a row of each function costs: CPU of its kernel over batches of 10,000 rows.

The expressions are in kernels.exprs, the rows in kernels_data.py. A kernel is warm, every
repetition has a batch without anything remembered, and the batches have different values."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.kernels_data import COLUMNS, SCHEMA, batch
from benchmarks.page import Section, Table
from parser import parse_condition
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Field, Place, Scope
from planner.catalog import Catalog
from planner.scalar import ColumnRef, Scalar
from sqlengine.batch import Batch
from sqlengine.expressions import compile_expression

EXPRESSIONS = Path(__file__).parent / "kernels.exprs"
ROWS = 10_000
BATCHES = 3
# CPU seconds for one expression, and how often it is evaluated at least.
SECONDS, TIMES = 0.1, 5
_NAME = re.compile(r"'(?:[^']|'')*'|[A-Za-z_]\w*")


@dataclass(frozen=True)
class Case:
    """An expression; `usual` ones have the higher target. `reason`: why it is slower than its
    target."""

    topic: str
    text: str
    usual: bool
    reason: str

    def bound(self) -> Scalar:
        scope = Scope(tuple(Field(("t",), c.name, ColumnRef(c.name, c.type)) for c in SCHEMA))
        return bind_scalar(
            parse_condition(self.text), Place(Context(Catalog(), {}), scope, "SELECT")
        )

    def columns(self) -> list[str]:
        """The columns in it, in order."""
        return list(dict.fromkeys(name for name in _NAME.findall(self.text) if name in COLUMNS))

    def over(self, suffix: str) -> str:
        """The expression over the columns whose names end with `suffix`."""
        return _NAME.sub(lambda m: f"{m[0]}{suffix}" if m[0] in COLUMNS else m[0], self.text)


def cases(path: Path = EXPRESSIONS) -> Iterator[Case]:
    """The expressions in the order of the file."""
    topic = ""
    for line in path.read_text(encoding="utf-8").splitlines()[3:]:
        if line.startswith("-- "):
            topic = line.removeprefix("-- ")
        elif line:
            text, _, reason = line.removeprefix("* ").partition("  -- ")
            yield Case(topic, text, line.startswith("* "), reason)


def batches() -> list[Batch]:
    return [batch(ROWS, seed) for seed in range(BATCHES)]


def ours_ns(case: Case, given: Sequence[Batch]) -> float:
    """CPU nanoseconds a row, all threads, the median of the repetitions."""
    evaluate = compile_expression(case.bound())
    for b in given:
        if evaluate(replace(b, memo={})).errors is not None:
            raise ValueError(f"{case.text} has errors")
    found: list[float] = []
    while len(found) < TIMES or sum(found) < SECONDS:
        fresh = replace(given[len(found) % len(given)], memo={})
        began = time.process_time_ns()
        evaluate(fresh)
        found.append((time.process_time_ns() - began) / 1e9)
    return statistics.median(found) * 1e9 / ROWS


def run() -> Section:
    given = batches()
    found = [(c, ours_ns(c, given)) for c in cases()]
    rows = []
    for topic in dict.fromkeys(c.topic for c, _ in found):
        figures = sorted((ns, c.text) for c, ns in found if c.topic == topic)
        slowest = ", ".join(f"`{text}` {shown(ns)}" for ns, text in figures[::-1][:3])
        rows.append(
            [topic, str(len(figures)), shown(statistics.median(ns for ns, _ in figures)), slowest]
        )
    about = (
        f"{len(found)} expressions over batches of {ROWS:,} rows with hardly one value twice, 2 %"
        " of them NULL (`benchmarks/kernels.exprs`). CPU nanoseconds a row, all threads; what"
        " Flink needs is in the table below this one."
    )
    columns = ["topic", "expressions", "median ns", "the slowest, ns"]
    return Section(
        "kernels", "What a row of a function costs", about, [Table("CPU by topic", columns, rows)]
    )


def shown(ns: float) -> str:
    return f"{ns:.1f}" if ns < 100 else f"{ns:,.0f}"
