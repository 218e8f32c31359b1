"""Runs the plant: `python -m benchmarks.iot [--minutes 30] [--kills 20] [--cores 2] [--memory BYTES]`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from benchmarks.iot.run import Wanted, run, section
from benchmarks.scenarios.options import report, run_options
from benchmarks.scenarios.sql_server import Share


@click.command()
@click.option("--minutes", type=float, default=30.0, show_default=True)
@click.option("--kills", type=int, default=20, show_default=True)
@run_options
def main(
    minutes: float, kills: int, share: Share, output: str, kept: bool, folder: Path | None
) -> None:
    """The plant for some minutes, and what came of it. Exit code 1: alerts were lost or came twice, or
    the server took more memory than it may."""
    result = run(Wanted(minutes, kills, share), folder)
    report(result, asdict(result), section(result), output, kept)


if __name__ == "__main__":
    main()
