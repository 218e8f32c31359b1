"""Runs the detection: `python -m benchmarks.detection_live [--minutes 6] [--kills 10]`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from benchmarks.detection_live.run import Wanted, run, section
from benchmarks.scenarios.options import report, run_options
from benchmarks.scenarios.sql_server import Share


@click.command()
@click.option("--minutes", type=float, default=6.0, show_default=True)
@click.option("--kills", type=int, default=10, show_default=True)
@click.option("--rules", type=click.IntRange(1, 1414), default=1414, show_default=True)
@click.option("--rate", type=float, default=400.0, show_default=True, help="Events a second.")
@click.option("--copies", type=int, default=4, show_default=True, help="Of the log, that differ.")
@run_options
def main(
    minutes: float, kills: int, rules: int, rate: float, copies: int, share: Share, output: str,
    kept: bool, folder: Path | None,
) -> None:  # fmt: skip
    """Detection for some minutes, and what came of it. Exit code 1: alerts were lost or came twice, or
    the server took more memory than it may."""
    result = run(Wanted(minutes, kills, rules, rate, copies, share), folder)
    report(result, asdict(result), section(result), output, kept)


if __name__ == "__main__":
    main()
