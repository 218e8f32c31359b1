"""Runs the detection: `python -m benchmarks.detection_live [--minutes 6] [--kills 10]`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from benchmarks.detection_live.run import Wanted, run, section
from benchmarks.page import show, write
from benchmarks.scenarios.options import share_options
from benchmarks.scenarios.sql_server import Share


@click.command()
@click.option("--minutes", type=float, default=6.0, show_default=True)
@click.option("--kills", type=int, default=10, show_default=True)
@click.option("--rules", type=click.IntRange(1, 1414), default=1414, show_default=True)
@click.option("--rate", type=float, default=400.0, show_default=True, help="Events a second.")
@click.option("--copies", type=int, default=4, show_default=True, help="Of the log, that differ.")
@share_options
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--write", "kept", is_flag=True, help="Puts the table into docs/benchmarks.md.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keeps what the servers wrote.")
def main(
    minutes: float, kills: int, rules: int, rate: float, copies: int, share: Share, output: str,
    kept: bool, folder: Path | None,
) -> None:  # fmt: skip
    """Detection for some minutes, and what came of it. Exit code 1: alerts were lost or came twice, or
    the server took more memory than it may."""
    result = run(Wanted(minutes, kills, rules, rate, copies, share), folder)
    if output == "json":
        figures = {"per_second": result.per_second, "per_cpu_second": result.per_cpu_second}
        print(json.dumps({"good": result.good, **figures, **asdict(result)}))
    else:
        show(section(result))
    if kept:
        write(section(result))
    sys.exit(0 if result.good else 1)


if __name__ == "__main__":
    main()
