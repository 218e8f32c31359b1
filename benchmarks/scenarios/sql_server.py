"""`sql serve` as a process, on as much of a machine as is wanted."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.servers.process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Share:
    """What the server may have of the machine. `cores`: it runs on the first so many (taskset).
    `memory`: in bytes; it is told to keep its state within 80 % of them, as it does by itself in a
    container of this size, and its resident memory is judged."""

    cores: int = 2
    memory: int | None = None

    def __str__(self) -> str:
        memory = "" if self.memory is None else f", {self.memory / 2**30:g} GB"
        return f"{self.cores} core{'s' * (self.cores > 1)}{memory}"

    @property
    def pinned(self) -> list[str]:
        """The beginning of a command that runs on these cores."""
        cores = sorted(os.sched_getaffinity(0))[: self.cores]
        return ["taskset", "-c", ",".join(map(str, cores))]

    @property
    def state_limit(self) -> list[str]:
        """The option of the server."""
        return [] if self.memory is None else ["--memory-limit", f"{self.memory * 8 // 10}b"]

    def exceeded(self, peak_mb: float) -> bool:
        return self.memory is not None and peak_mb * 2**20 > self.memory


class SqlServer(ServerProcess):
    """A server without jobs at first."""

    name = "sql"

    def __init__(self, folder: Path, share: Share) -> None:
        super().__init__(folder)
        self._share = share

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        serve = [sys.executable, "-m", "sqlengine.cli", "serve", "--data", "data"]
        return [*self._share.pinned, *serve, "--port", str(self.port), *self._share.state_limit]

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(ROOT)}

    def ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def submit(self, folder: Path) -> None:
        """Submits the jobs of a folder in one change."""
        submit = [sys.executable, "-m", "sqlengine.cli", "submit", str(folder)]
        subprocess.run(
            [*submit, "--server", self.url],
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **self.environment()},
        )
