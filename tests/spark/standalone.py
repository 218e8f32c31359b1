"""A standalone cluster of Spark on the loopback address: a master and its workers, each a process
of pyspark's own jars, with ways to kill what runs there. Nothing but its own processes is touched."""

from __future__ import annotations

import ctypes
import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from tests.support import eventually

_DEPLOY = "org.apache.spark.deploy"
_EXECUTOR = "CoarseGrainedExecutorBackend"
_PR_SET_PDEATHSIG = 1
_STARTED = re.compile(r"Starting Spark master at (spark://\S+)")


@dataclass
class Standalone:
    """A cluster whose logs and working folders are in `folder`."""

    folder: Path
    workers: list[psutil.Popen] = field(default_factory=list)
    _all: list[psutil.Process] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.url = ""
        try:
            self.start_master()
            for _ in range(2):
                self.start_worker()
            eventually(lambda: len(self._registered()) == 2, self.said)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- processes -------------------------------------------------------------------------------

    def start_master(self) -> None:
        """Starts the master, at the address that it had, if it had one."""
        port, log = self.url.rpartition(":")[2] or "0", self._log("master")
        started = len(_STARTED.findall(log.read_text())) if log.exists() else 0
        self.master = self._start("master", "master.Master", "--port", port)

        def url() -> str | None:
            assert self.master.poll() is None, self.said()
            found = _STARTED.findall(log.read_text())
            return found[started] if len(found) > started else None

        self.url = eventually(url, self.said)

    def start_worker(self) -> None:
        """Starts one more worker, which has a core."""
        name = f"worker-{len(list(self.folder.glob('worker-*.log')))}"
        work = self.folder / name
        self.workers.append(
            self._start(
                name,
                "worker.Worker",
                "--port",
                "0",
                "-c",
                "1",
                "-m",
                "1g",
                "-d",
                str(work),
                self.url,
            )
        )

    def _start(self, name: str, kind: str, *options: str) -> psutil.Popen:
        home = _home_of_spark()
        command = [str(home / "bin" / "spark-class"), f"{_DEPLOY}.{kind}", "--host", "127.0.0.1"]
        # Nothing of the tests' own Python: what executors need of it they must get.
        environment = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH",)} | {
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
        }
        with self._log(name).open("ab") as log:
            process = psutil.Popen(
                [*command, "--webui-port", "0", *options],
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
        self._all.append(process)
        return process

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _registered(self) -> list[str]:
        return re.findall(r"Registering worker", self._log("master").read_text())

    def said(self) -> str:
        """The last lines of all logs."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{p.name}: {p.read_text(errors='replace')[-1500:]}" for p in logs)

    # ---- who runs --------------------------------------------------------------------------------

    def executors(self) -> list[psutil.Process]:
        """The executors of all applications."""
        return [p for p in self._below() if _EXECUTOR in _command(p)]

    def python_workers(self) -> list[psutil.Process]:
        """The Python processes of executors: those that fork, and those that run tasks."""
        return [p for p in self._below() if "pyspark.daemon" in _command(p)]

    def _below(self) -> list[psutil.Process]:
        found = []
        for worker in self.workers:
            with suppress(psutil.NoSuchProcess):
                found += worker.children(recursive=True)
        self._all += [p for p in found if p not in self._all]
        return found

    # ---- kills -----------------------------------------------------------------------------------

    def replace_worker(self, number: int) -> None:
        """Kills a worker process, whose executors end themselves, and starts another."""
        self._below()  # to know them at the end
        kill(self.workers.pop(number))
        self.start_worker()

    def start_again(self) -> None:
        """Kills the master and all workers, and starts others: the master has forgotten all."""
        self._below()
        for process in (self.master, *self.workers):
            kill(process)
        self.workers.clear()
        self.start_master()
        for _ in range(2):
            self.start_worker()

    def close(self) -> None:
        self._below()
        for process in self._all:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        for process in self._all:
            # One that goes at this moment may be no process any more, and no error of psutil either.
            with suppress(psutil.Error, FileNotFoundError):
                process.wait(30)


def end_with_parent() -> None:
    """Has the system kill this process when the one that started it ends, however that does."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def kill(process: psutil.Process) -> None:
    """Kills a process, if it still runs, and waits until it is gone."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)
        process.wait(60)


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _home_of_spark() -> Path:
    import pyspark  # it is not installed for the tests that need no Spark

    return Path(pyspark.__file__).parent
