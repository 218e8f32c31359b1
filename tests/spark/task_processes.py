"""What Spark does for a job of one task that lasts, without a JVM: the task runs in a worker
process of its own, which may be killed, and again where that dies."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from parser.errors import ExecutionError
from tests.spark.staged import WithoutJava
from tests.support import ROOT

Task = partial[Any]
_ATTEMPTS = 4
_WORKER = "import pickle, sys; pickle.load(sys.stdin.buffer)(iter([0]))"


class TaskProcesses(WithoutJava):
    """A session of Spark that has `cores` for tasks, and no more. `elsewhere`: its workers are on a
    machine that has not the data folder of the server."""

    def __init__(self, cores: int = 4, *, elsewhere: bool = False) -> None:
        self._elsewhere = elsewhere
        self._cores = threading.Semaphore(cores)
        self._local = threading.local()
        self._lock = threading.Lock()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._cancelled: set[str] = set()
        self.attempts = 0

    @property
    def workers(self) -> list[int]:
        """The processes in which tasks run."""
        return [worker.pid for worker in list(self._running.values())]

    @contextmanager
    def group(
        self,
        name: str,
        what: str,
        tell: Callable[[str | None], None] = lambda what: None,
        far: Callable[[str], None] | None = None,
    ) -> Iterator[None]:
        self._local.group = name
        yield

    def view(self) -> None:
        """Nobody looks at it."""

    def partitions(self) -> int:
        return 1

    def parallelize(self, rows: list[int], count: int) -> TaskProcesses:
        assert (len(rows), count) == (1, 1)
        return self

    def foreachPartition(self, task: Task) -> None:  # noqa: N802
        group = self._local.group
        if self._elsewhere:
            work, *others = task.args
            config = replace(work.config, data=Path("/of/another/machine"))
            task = partial(task.func, replace(work, config=config), *others)
        while not self._cores.acquire(timeout=0.02):
            if group in self._cancelled:
                raise ExecutionError("the job was cancelled")
        try:
            for _ in range(_ATTEMPTS):
                if self._attempt(group, pickle.dumps(task)) == 0:
                    return
            raise ExecutionError("a task was lost four times")
        finally:
            self._cores.release()

    def _attempt(self, group: str, task: bytes) -> int:
        with self._lock:
            if group in self._cancelled:
                raise ExecutionError("the job was cancelled")
            self.attempts += 1
            worker = subprocess.Popen(
                [sys.executable, "-c", _WORKER], stdin=subprocess.PIPE, cwd=ROOT
            )
            self._running[group] = worker
        worker.communicate(task)
        with self._lock:
            del self._running[group]
        return worker.returncode

    def cancel(self, name: str) -> None:
        with self._lock:
            self._cancelled.add(name)
            if name in self._running:
                self._running[name].kill()

    def worker_memory(self) -> None:
        """Its tasks may take any."""

    def close(self) -> None: ...
