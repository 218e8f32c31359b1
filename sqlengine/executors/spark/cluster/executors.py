"""Waits for the executors of a cluster, and notices when there are none any more."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from parser.errors import ServiceError

log = logging.getLogger("sqlengine.spark")

# Seconds without executors, after which that is said.
TOLD_S: Final = 3.0
# No other executor came for so many seconds: those that are there are all.
_SETTLED_S: Final = 1.0
_LOOK_S: Final = 0.2
# Is called with what a job waits for, and with None once it runs.
Tell: TypeAlias = Callable[[str | None], None]


def await_executors(count: Callable[[], int], master: str, patience_s: float) -> None:
    """Waits until there are executors, and no more come. ServiceError where there is none after
    `patience_s` seconds."""
    began = last = time.monotonic()
    known, told = 0, False
    while known == 0 or time.monotonic() - last < _SETTLED_S:
        now = count()
        waited = time.monotonic() - began
        if now != known:
            known, last = now, time.monotonic()
        elif not known and waited >= patience_s:
            raise no_executors(master, patience_s)
        elif not known and waited >= TOLD_S and not told:
            log.warning("waiting for executors of %s", master)
            told = True
        time.sleep(_LOOK_S)
    log.info("%d executors of %s", known, master)


def no_executors(master: str, patience_s: float) -> ServiceError:
    """Returns the error for a cluster that gives no executor."""
    return ServiceError(
        f"no executors of {master} came within {patience_s:g} s",
        detail="no worker has the cores and the memory that are left for one, or none can reach"
        " this process",
        hint="the page and the log of the master tell; --spark-conf spark.executor.memory=…,"
        " spark.cores.max=… and spark.driver.host=… say what is asked for and from where",
    )


class ExecutorWatch:
    """Looks whether there are executors while jobs run, in a thread of its own.

    Spark waits for ever for a cluster that has forgotten it. So a session that is without executors
    for `patience_s` seconds is given up: the next one registers anew."""

    def __init__(
        self, master: str, count: Callable[[], int], give_up: Callable[[], None], patience_s: float
    ) -> None:
        self._master, self._count, self._give_up = master, count, give_up
        self._patience_s = patience_s
        self._jobs: dict[object, Tell] = {}
        self._since: float | None = None
        self._told = False
        self._stopped = threading.Event()

    def start(self) -> None:
        """Starts the thread, which ends by itself with its process."""
        threading.Thread(target=self._run, name="spark-executors", daemon=True).start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()

    @contextmanager
    def job(self, tell: Tell) -> Iterator[None]:
        """Looks while the body runs a job, which is told what it waits for."""
        tell(None)
        job = object()  # several may be told in the same way
        self._jobs[job] = tell
        try:
            yield
        finally:
            del self._jobs[job]

    def look(self, now: float) -> None:
        """Looks at the executors at a time in seconds."""
        if not self._jobs or self._count():
            if self._told:
                self._tell_all(None)
            self._since, self._told = None, False
            return
        self._since = now if self._since is None else self._since
        if now - self._since >= TOLD_S and not self._told:
            self._told = True
            log.warning("waiting for executors of %s", self._master)
            self._tell_all(f"waits for executors of {self._master}")
        if now - self._since >= self._patience_s:
            log.error("no executors of %s: Spark starts again", self._master)
            self._since, self._told = None, False
            self._give_up()

    def _tell_all(self, what: str | None) -> None:
        for tell in list(self._jobs.values()):
            tell(what)

    def _run(self) -> None:
        while not self._stopped.wait(1.0):
            try:
                self.look(time.monotonic())
            except Exception as error:
                log.debug("the executors cannot be counted", exc_info=error)
                return
