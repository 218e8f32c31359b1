"""`python -m tests.fuzz --seed 1 --queries 100`: random queries, each asked of us and of a real Flink."""

from __future__ import annotations

import json
import sys
from collections import Counter
from random import Random
from typing import Any

import click

from tests.fuzz.compare import Verdict, compared, real_flink
from tests.fuzz.data import Table, tables
from tests.fuzz.grammar import OPERATORS, Query, queries
from tests.fuzz.shrink import shrunk
from tests.support import oracle_missing

TOGETHER = 40


@click.command()
@click.option("--seed", default=1, help="Decides tables, rows and queries.")
@click.option("--queries", "count", default=100, help="How many; every 40 have tables of their own.")
@click.option("--only", type=click.Choice(sorted(OPERATORS)), help="Queries whose outermost operation is this.")
@click.option("--shrink", "shrinks", default=3, help="How many differences are made smaller.")
@click.option("--kinds", default="rows,refused,types,names,order,accepted,nullability", help="Differences that count.")
@click.option("--settings", default="", help="SET statements, each with its semicolon.")
def main(seed: int, count: int, only: str | None, shrinks: int, kinds: str, settings: str) -> None:
    """Random queries over random tables, compared with a real Flink."""
    reason = oracle_missing()
    if reason:
        raise click.ClickException(reason)
    wanted, counts, pairs, operators = kinds.split(","), Counter[str](), Counter[Any](), Counter[str]()
    with real_flink() as flink:
        for first in range(0, count, TOGETHER):
            part = seed * 1000 + first // TOGETHER
            held = tables(Random(f"tables/{part}"))
            made = queries(part, held, range(min(TOGETHER, count - first)), only)
            verdicts = compared(flink, held, [q.sql for q in made], [q.exact for q in made], settings)
            for number, (query, verdict) in enumerate(zip(made, verdicts, strict=True)):
                counts.update(_counted(query, verdict))
                operators[query.operator] += 1
                pairs.update(query.pairs)
                if verdict.differs and verdict.kind in wanted:
                    click.echo(f"\n=== {verdict.kind}: seed {seed}, {part}/{number} ({query.operator})\n{query.sql}")
                    _show(verdict)
                    if shrinks > 0:
                        shrinks -= 1
                        _shrink(flink, held, query, verdict)
    click.echo("\n" + "\n".join(f"{n:6} {name}" for name, n in operators.most_common()))
    click.echo("\n" + "\n".join(f"{n:6} {a} of {b}" for (a, b), n in pairs.most_common(40)) + f"\n{len(pairs)} pairs")
    click.echo("\n" + "\n".join(f"{n:6} {name}" for name, n in counts.most_common()))
    sys.exit(any(counts[k] for k in wanted))


def _counted(query: Query, verdict: Verdict) -> list[str]:
    found = ["queries", verdict.kind]
    if isinstance(verdict.flink, list) and len(verdict.flink) > 1:
        found.append("with rows")
        if any("null" in row for row in verdict.flink[1:]):
            found.append("with NULL in rows")
    return found


def _show(verdict: Verdict) -> None:
    for name, answer, other in (("Flink", verdict.flink, verdict.ours), ("here ", verdict.ours, verdict.flink)):
        if isinstance(answer, str):
            click.echo(f"  {name} {answer[:1200]}")
            continue
        unlike = [r for r in answer if isinstance(other, str) or r not in other] or answer
        for row in unlike[:12]:
            click.echo(f"  {name} {row}")


def _shrink(flink: Any, held: list[Table], query: Query, verdict: Verdict) -> None:
    smaller, sql = shrunk(flink, held, query.sql, verdict, query.exact)
    found = compared(flink, smaller, [sql], [query.exact])[0]
    click.echo(f"--- smaller: {sql}")
    for table in smaller:
        click.echo(f"  {table.name} ({', '.join(f'{c.name} {c.kind}' for c in table.columns)}) delay {table.delay}")
        for row in table.rows:
            click.echo(f"    {json.dumps(row, ensure_ascii=False)}")
    for name, answer in (("Flink", found.flink), ("here ", found.ours)):
        for row in [answer] if isinstance(answer, str) else answer:
            click.echo(f"  {name} {row[:1000]}")


if __name__ == "__main__":
    main()
