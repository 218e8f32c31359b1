"""`python -m tests.conformance sigma FOLDER`: runs a corpus and says for each of its parts whether
it passes; so does `python -m tests.conformance expressions FILE` for a file of expressions."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import NoReturn

import click

from tests.conformance.expressions import run_expressions
from tests.conformance.program_runs import run_programs
from tests.conformance.programs import PASSING, reason
from tests.conformance.sigma import SWITCHES, Report, run_sigma
from tests.conformance.statements import run_statements


@click.group()
def main() -> None:
    """Runs a folder of conformance data."""


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write all alerts here: rule id, tab, event id."
)
@click.option(
    "--without", multiple=True, type=click.Choice(SWITCHES), help="Switch a part of the rules off."
)
def sigma(folder: Path, out: Path | None, without: tuple[str, ...]) -> None:
    """Rules over event logs, end to end through the broker (FOLDER is of the form of
    corpora/sigma)."""
    _tell_alerts(run_sigma(folder, frozenset(without)), out)


@main.command("sigma-yaml")
@click.argument("rules", type=click.Path(exists=True, path_type=Path))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write all alerts here: rule id, tab, event id."
)
def sigma_yaml(rules: Path, folder: Path, out: Path | None) -> None:
    """Rules as Sigma's YAML over event logs (RULES: JSON lines with id, table and yaml, or a folder
    of YAML; FOLDER as for `sigma`, but for its rules)."""
    from tests.conformance.sigma_yaml import run_sigma_yaml

    _tell_alerts(run_sigma_yaml(rules, folder), out)


def _tell_alerts(report: Report, out: Path | None) -> NoReturn:
    """Prints a report, writes its alerts, and ends with 1 where something failed."""
    for line in report.lines:
        click.echo(line)
    if out is not None:
        out.write_text("".join(f"{rule}\t{event}\n" for rule, event in report.alerts))
    for name, value in report.counters.items():
        click.echo(f"{name} = {value}", err=True)
    click.echo(
        f"{report.passed} passed, {report.failed} failed, {report.not_applicable} not applicable"
    )
    sys.exit(1 if report.failed else 0)


@main.command()
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write our own results here, in the oracle's form.",
)
def expressions(path: Path, out: Path | None) -> None:
    """Scalar expressions and what real Flink says of them (PATH is what `flink_oracle.py --exprs`
    prints or reads)."""
    report = run_expressions(path)
    for line in report.lines:
        click.echo(line)
    if out is not None:
        out.write_text(
            "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in report.ours),
            encoding="utf-8",
        )
    unknown = f", {report.unknown} without expectation" if report.unknown else ""
    click.echo(f"{report.passed} passed, {report.failed} failed{unknown}")
    sys.exit(1 if report.failed else 0)


@main.command()
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write the SQL of each tree here, one JSON object a line.",
)
def statements(path: Path, out: Path | None) -> None:
    """Texts that must parse to trees, be written from them and read again (PATH: JSON lines with
    file and sql)."""
    texts = []
    for text in run_statements(path):
        texts.append(text)
        click.echo(text.line)
    if out is not None:
        out.write_text("".join(f"{text.json}\n" for text in texts), encoding="utf-8")
    failed = sum(1 for text in texts if text.faults)
    click.echo(f"{len(texts) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


@main.command()
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write what came out here, a file for each sink."
)
@click.option("--only", help="Programs whose class or id begins with this.")
@click.option("--summary", is_flag=True, help="Count the failures by their reasons.")
@click.option(
    "--remember", is_flag=True, help="Add those that pass to the list of those that must."
)
def programs(path: Path, out: Path | None, only: str | None, summary: bool, remember: bool) -> None:
    """Table test programs (PATH: JSON lines with class, id and steps)."""
    outcomes = []
    for outcome in run_programs(path, only):
        outcomes.append(outcome)
        click.echo(outcome.line)
        if out is not None:
            outcome.write(out)
    failed = [o for o in outcomes if o.faults]
    if summary:
        for why, count in Counter(reason(o.faults[0]) for o in failed).most_common():
            click.echo(f"{count:4} {why}")
    passed = sum(o.passed for o in outcomes)
    if remember:
        names = {
            *PASSING.read_text(encoding="utf-8").split(),
            *(o.program.name for o in outcomes if o.passed),
        }
        PASSING.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
    rest = len(outcomes) - passed - len(failed)
    click.echo(f"{passed} passed, {len(failed)} failed, {rest} not applicable")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
