"""`python -m tests.conformance sigma FOLDER`: runs a corpus and says for each of its parts whether it passes."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tests.conformance.sigma import SWITCHES, run_sigma


@click.group()
def main() -> None:
    """Runs a folder of conformance data."""


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Write all alerts here: rule id, tab, event id.")
@click.option("--without", multiple=True, type=click.Choice(SWITCHES), help="Switch a part of the rules off.")
def sigma(folder: Path, out: Path | None, without: tuple[str, ...]) -> None:
    """Rules over event logs, end to end through the broker (FOLDER is of the form of corpora/sigma)."""
    report = run_sigma(folder, frozenset(without))
    for line in report.lines:
        click.echo(line)
    if out is not None:
        out.write_text("".join(f"{rule}\t{event}\n" for rule, event in report.alerts))
    for name, value in report.counters.items():
        click.echo(f"{name} = {value}", err=True)
    click.echo(f"{report.passed} passed, {report.failed} failed, {report.not_applicable} not applicable")
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
