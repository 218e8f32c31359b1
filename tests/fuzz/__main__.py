"""`python -m tests.fuzz --seed 1 --queries 100`: random queries, each asked of us and of a real
Flink."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import click

from tests.fuzz.answers import Answers
from tests.fuzz.compare import Flink, Verdict, compared, real_flink
from tests.fuzz.data import Table, tables
from tests.fuzz.data import settings as part_settings
from tests.fuzz.grammar import OPERATORS, TOGETHER, Query, queries
from tests.fuzz.shrink import shrunk
from tests.fuzz.tally import Tally
from tests.support import oracle_missing


@click.command()
@click.option("--seed", default=1, help="Decides tables, rows and queries.")
@click.option(
    "--queries", "count", default=100, help=f"How many; every {TOGETHER} have tables of their own."
)
@click.option("--first", default=0, help="The number of the first of them.")
@click.option(
    "--only",
    type=click.Choice(sorted(OPERATORS)),
    help="Queries whose outermost operation is this.",
)
@click.option("--shrink", "shrinks", default=3, help="How many differences are made smaller.")
@click.option(
    "--kinds",
    default="rows,refused,types,names,order,accepted,nullability,varies",
    help="Differences that count.",
)
@click.option("--settings", default="", help="SET statements, each with its semicolon.")
@click.option("--batch", is_flag=True, help="In batch mode.")
@click.option(
    "--tally", type=click.Path(path_type=Path), help="A file that adds up the histogram over runs."
)
@click.option(
    "--answers",
    type=click.Path(path_type=Path),
    help="A file that keeps what Flink says for other runs.",
)
def main(
    seed: int,
    count: int,
    first: int,
    only: str | None,
    shrinks: int,
    kinds: str,
    settings: str,
    batch: bool,
    tally: Path | None,
    answers: Path | None,
) -> None:
    """Random queries over random tables, compared with a real Flink."""
    reason = oracle_missing()
    if reason:
        raise click.ClickException(reason)
    wanted, counted, differences = kinds.split(","), Tally(tally), 0
    with real_flink() as oracle:
        flink = Flink(oracle, batch=batch, answers=Answers(answers))
        for part, numbers in _parts(first, first + count):
            own = seed * 1000 + part
            held = tables(Random(f"tables/{own}"))
            asked = replace(flink, settings=settings + part_settings(Random(f"settings/{own}")))
            made = queries(own, held, numbers, only, batch)
            for number, query, first_verdict in zip(
                numbers, made, compared(asked, held, made), strict=True
            ):
                verdict = _settled(asked, held, query, first_verdict)
                counted.add(query, verdict)
                if verdict.kind in wanted:
                    place = f"--seed {seed} --first {part * TOGETHER + number} --queries 1"
                    click.echo(f"\n=== {verdict.kind}: {place} ({query.operator})\n{query.sql}")
                    _show(verdict)
                    differences += 1
                    if verdict.differs and differences <= shrinks:
                        _shrink(asked, held, query, verdict)
            counted.keep()
            done, total = part * TOGETHER + numbers.stop - first, counted.kinds["compared"]
            click.echo(
                f"{done} of {count} queries, {total} compared, {differences} differ", err=True
            )
    click.echo("\n" + "\n".join(counted.lines()))
    sys.exit(differences > 0)


def _settled(flink: Flink, held: list[Table], query: Query, found: Verdict) -> Verdict:
    """A difference is asked for once more: of several inputs Flink's answers may vary."""
    if not found.differs or compared(flink, held, [query], again=True)[0].differs:
        return found
    return replace(found, kind="varies")


def _parts(first: int, end: int) -> list[tuple[int, range]]:
    """Which parts there are, and which queries of each: from `first` to before `end`, counted over
    all parts."""
    found = []
    for part in range(first // TOGETHER, (end + TOGETHER - 1) // TOGETHER):
        start = part * TOGETHER
        found.append((part, range(max(first - start, 0), min(end - start, TOGETHER))))
    return found


def _show(verdict: Verdict) -> None:
    for name, answer, other in (
        ("Flink", verdict.flink, verdict.ours),
        ("here ", verdict.ours, verdict.flink),
    ):
        if isinstance(answer, str):
            click.echo(f"  {name} {answer[:1200]}")
            continue
        unlike = [r for r in answer if isinstance(other, str) or r not in other] or answer
        for row in unlike[:12]:
            click.echo(f"  {name} {row}")


def _shrink(flink: Flink, held: list[Table], query: Query, verdict: Verdict) -> None:
    smaller, shorter = shrunk(flink, held, query, verdict)
    found = compared(flink, smaller, [shorter])[0]
    click.echo(f"--- smaller: {shorter.sql}")
    for table in smaller:
        click.echo(
            f"  {table.name} ({', '.join(f'{c.name} {c.kind}' for c in table.columns)}) delay"
            f" {table.delay} {table.time}"
        )
        for row in table.rows:
            click.echo(f"    {json.dumps(row, ensure_ascii=False)}")
    for name, answer in (("Flink", found.flink), ("here ", found.ours)):
        for line in [answer] if isinstance(answer, str) else answer:
            click.echo(f"  {name} {line[:1000]}")


if __name__ == "__main__":
    main()
