"""Runs the plant: `python -m benchmarks.iot [--minutes 30] [--cores 0,1] [--kills 20]`."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.iot.run import run
from benchmarks.page import show


@click.command()
@click.option("--minutes", type=float, default=30.0, show_default=True)
@click.option("--cores", default="0,1", show_default=True, help="Those that the server may use.")
@click.option("--kills", type=int, default=20, show_default=True)
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Keeps what the servers wrote there."
)
def main(minutes: float, cores: str, kills: int, folder: Path | None) -> None:
    """The plant for some minutes, and what came of it."""
    show(run(minutes, [int(c) for c in cores.split(",")], kills, folder))


if __name__ == "__main__":
    main()
