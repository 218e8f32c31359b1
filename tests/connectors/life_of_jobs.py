"""A server in a process of its own that runs jobs which hardly ever write a checkpoint, made to be
killed.

python -m tests.connectors.life_of_jobs FOLDER SCRIPTS WHERE"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.machine import THIS
from tests.spark.staged import Staged
from tests.support import ROOT

_MODULE: Final = "tests.connectors.life_of_jobs"
# In the process of the server, in parts of two instances, or in tasks as those of Spark.
Where: TypeAlias = Literal["server", "instances", "tasks"]


class LifeOfJobs:
    """Such a process: the jobs are the scripts of a folder, by their names."""

    def __init__(self, folder: Path, scripts: Path, where: Where = "server") -> None:
        command = [sys.executable, "-m", _MODULE, str(folder), str(scripts), where]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def states(self) -> dict[str, str]:
        """Waits until the server runs; returns the states that its jobs had when it started."""
        assert self._process.stdout is not None
        told = self._process.stdout.readline().split()
        return dict(word.split("=") for word in told)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def _engine(folder: Path, where: str) -> Engine:
    soon = {"restart-strategy.exponential-delay.max-backoff": "2 s"}
    config = Config(data=folder, checkpoint_ms=60_000, settings=soon)
    if where == "tasks":
        return Engine(replace(config, target="spark"), replace(THIS, spark=lambda _: Staged(2)))
    return Engine(replace(config, instances=2) if where == "instances" else config)


def main(folder: str, scripts: str, where: str = "server") -> None:
    """Lives until it is killed."""
    engine = _engine(Path(folder), where)
    engine.start()
    states = {job.name: job.state.value for job in engine.jobs()}
    for script in sorted(Path(scripts).glob("*.sql")):
        if script.stem not in states:
            engine.submit(script.stem, script.read_text())
            states[script.stem] = "added"
    print(*(f"{name}={state}" for name, state in states.items()), flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])
