"""The server of the demo: a real `sql serve` process, started, killed and started again on the same
data folder."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from sqlengine.broker.errors import Unreachable
from sqlengine.client import Client, Refused


class Server:
    """`folder` holds everything: data, the watched folder of jobs, the log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "jobs"
        self.port = _free_port()
        self.client = Client(f"http://127.0.0.1:{self.port}")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Seconds until it was ready."""
        began = time.monotonic()
        log = (self.folder / "server.log").open("ab")
        command = [
            sys.executable,
            "-m",
            "sqlengine.cli",
            "serve",
            "--data",
            str(self.folder / "data"),
        ]
        command += ["--jobs", str(self.jobs), "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        while time.monotonic() - began < 60:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(Unreachable, Refused):  # it listens before it is ready
                if self.client.get("/readyz")["status"] == "ready":
                    return time.monotonic() - began
            time.sleep(0.02)
        tail = (self.folder / "server.log").read_text()[-2000:]
        raise SystemExit(f"the server did not start:\n{tail}")

    def kill(self) -> None:
        """SIGKILL: no time to write anything down."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)

    def metric(self, name: str) -> float:
        """Returns a value of /metrics; 0 if it is missing."""
        for line in self.client.get_text("/metrics").splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        return 0.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
