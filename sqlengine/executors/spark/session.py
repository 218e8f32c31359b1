"""Starts Spark in this process. What it prints goes to its log, never to standard output."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from parser.errors import ServiceError
from sqlengine.config import LOCAL, Cluster
from sqlengine.executors.spark.boundary import lost_java, lost_task
from sqlengine.executors.spark.cluster.checks import check_executors
from sqlengine.executors.spark.cluster.executors import ExecutorWatch, Tell, await_executors
from sqlengine.executors.spark.cluster.master import address_to, is_local, refuse_connect
from sqlengine.executors.spark.cluster.settings import PYTHON, check_settings, session_settings
from sqlengine.executors.spark.cluster.shipping import write_engine
from sqlengine.executors.spark.java import (
    does_not_start,
    forget_ended,
    forget_session,
    has_ended,
    printing_to,
    require_spark,
)
from sqlengine.executors.spark.job_watch import watching
from sqlengine.executors.spark.tasks.rules import MachineShare
from sqlengine.executors.spark.view import SparkView, view_of
from sqlengine.state.keys import BUCKETS
from sqlengine.system.sizes import size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("sqlengine.spark")

_HEAP: Final = "1g"
# A process that answers no more may take so many seconds to end.
_ENDS_S: Final = 3.0
# A task whose worker or executor dies is tried so often.
_ATTEMPTS: Final = 4
# Executors may take so many seconds to come, unless Spark's own setting of that says otherwise.
_PATIENCE_S: Final = 60.0
_PATIENCE: Final = "spark.scheduler.maxRegisteredResourcesWaitingTime"


def spark_session(
    app: str,
    cores: int = 2,
    memory: str = _HEAP,
    printed: Path | None = None,
    master: str | None = None,
    **options: str,
) -> SparkSession:
    """Starts a session, a small local one if no `master` is named. Its Python workers can import
    what this process can; those of executors on other machines get the engine.

    `printed`: the file that gets what Spark and its workers print; None for standard error.
    `options`: settings of Spark, with `__` for the dots. ServiceError where Spark does not
    start."""
    require_spark()
    refuse_connect(os.environ)
    from pyspark.sql import SparkSession

    given = {name.replace("__", "."): value for name, value in options.items()}
    check_settings(given)
    address = address_to(master)
    # It logs kilobytes of JSON with what the exceptions say.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    logging.getLogger("py4j").setLevel(logging.WARNING)  # else each connection that it closes
    _set_python(given)
    if given.get("spark.ui.enabled") == "true" and address is not None:
        # It shows what runs to all who reach it: by default those on this machine.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master or f"local[{cores},{_ATTEMPTS}]").appName(app)
    for name, value in session_settings(given, cores, memory, address).items():
        builder = builder.config(name, value)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError

    forget_ended()
    if not is_local(master):
        log.info("Spark asks %s for executors", master)
    try:
        with printing_to(printed):
            session = builder.getOrCreate()
    except (PySparkRuntimeError, Py4JError, ConnectionError) as error:
        raise does_not_start(error, printed, master) from error
    if not is_local(master):
        _ship(session)
    return session


def _set_python(given: dict[str, str]) -> None:
    """Sets which Python workers run, and where it finds what this process can import."""
    root = str(Path(__file__).resolve().parents[3])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if PYTHON in given:
        os.environ["PYSPARK_PYTHON"] = given[PYTHON]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


def _ship(session: SparkSession) -> None:
    """Hands executors the engine. The zip is in a folder that Spark's Java process deletes."""
    from pyspark import SparkFiles

    folder = Path(SparkFiles.getRootDirectory()) / "engine"
    folder.mkdir()
    before = list(sys.path)
    session.sparkContext.addPyFile(str(write_engine(folder)))
    sys.path[:] = before  # this process has it already


def _ignored(what: str | None) -> None: ...


class Spark(Protocol):
    """A Spark session for scripts and servers."""

    def require(self) -> None:
        """Raises ServiceError, with what to install, where `session` can never start one."""

    def session(self) -> SparkSession:
        """Returns the session, which the first call starts. ServiceError where it cannot start."""

    def unstarted(self) -> AbstractContextManager[None]:
        """In the body `session` starts none: where none is there, that is a ServiceError."""

    def errors(self) -> AbstractContextManager[None]:
        """Turns what Spark raises in the body into SqlErrors."""

    def group(
        self,
        name: str,
        what: str,
        tell: Tell = _ignored,
        far: Callable[[str], None] | None = None,
    ) -> AbstractContextManager[None]:
        """Gives the jobs of this thread a name, by which `cancel` knows them; Spark's UI shows
        `what` they are. From any thread `tell` is called with what they wait for besides tasks,
        None for nothing, and `far` with how many tasks are done."""

    def cancel(self, name: str) -> None:
        """Ends the jobs of that name: what waits for them raises. Any thread."""

    def view(self) -> SparkView | None:
        """Returns how the session does; None before the first call of `session`."""

    def partitions(self) -> int:
        """Returns the number of partitions that keep all cores busy."""

    def worker_memory(self) -> int | MachineShare | None:
        """Returns the bytes that a Python worker may take; None for any."""

    def close(self) -> None: ...


class OwnSpark:
    """The active session, or else one of its own: it starts with the first statement and stops with
    the script or server. `printed`: see `spark_session`. `folder`: below it tasks keep state, so
    that all executors must see it."""

    def __init__(
        self, printed: Path | None = None, cluster: Cluster = LOCAL, folder: Path | None = None
    ) -> None:
        check_settings(cluster.conf)
        self._own: SparkSession | None = None
        self._printed = printed
        self._master = cluster.master
        self._conf = cluster.conf
        self._folder = folder
        self._starting = Lock()
        self._may_start = True
        self._closed = Event()
        self._most_cores = 0
        self._watch: ExecutorWatch | None = None
        self._view: SparkView | None = None

    def require(self) -> None:
        """See `Spark`."""
        require_spark()

    def session(self) -> SparkSession:
        require_spark()
        from pyspark.sql import SparkSession

        with self._starting:
            if has_ended() or self._has_stopped():
                self._own = None
            forget_ended()
            if self._own is not None:
                return self._own
            active = SparkSession.getActiveSession()
            if active is None and not self._may_start:
                raise ServiceError("Spark has not started yet")
            return active or self._start_unless_closed()

    def _start_unless_closed(self) -> SparkSession:
        """Starts a session. Nobody waits for it at the end, when it is stopped."""
        if not self._closed.is_set():
            session = self._start()
            if not self._closed.is_set():
                return session
            session.stop()
        raise ServiceError("Spark is not started any more, the server ends")

    @contextmanager
    def unstarted(self) -> Iterator[None]:
        self._may_start = False
        try:
            yield
        finally:
            self._may_start = True

    def _has_stopped(self) -> bool:
        """True if the cluster has ended the session; the Java process lives on."""
        if self._watch is None or self._own is None:
            return False
        stopped: bool = self._own.sparkContext._jsc.sc().isStopped()
        if stopped:
            self._watch.stop()
            forget_session()
        return stopped

    def _start(self) -> SparkSession:
        cores, began = len(os.sched_getaffinity(0)), monotonic()
        if self._view is None:
            log.info("Spark starts")
        else:
            log.warning("Spark starts again, it has ended")
        session = spark_session(
            "sqlengine", cores, printed=self._printed, master=self._master, **self._conf
        )
        if not is_local(self._master):
            try:
                self._join_cluster(session)
            except BaseException:
                session.stop()
                raise
        self._own = session
        starts = 1 if self._view is None else self._view.starts + 1
        self._view = view_of(session, monotonic() - began, starts)
        log.info("%s; it took %.1f s to start", self._view, self._view.seconds)
        return session

    def _join_cluster(self, session: SparkSession) -> None:
        """Waits for executors that can run tasks, and watches them from then on."""
        assert self._master is not None
        context, java = session.sparkContext, session.sparkContext._jsc.sc()
        patience = _PATIENCE_S
        if _PATIENCE in self._conf:
            utils = context._jvm.org.apache.spark.network.util.JavaUtils
            patience = float(utils.timeStringAsSec(self._conf[_PATIENCE]))

        def count() -> int:
            return int(java.getExecutorMemoryStatus().size()) - 1  # one is the driver

        await_executors(count, self._master, patience)
        if self._folder is not None:
            with self.errors():
                check_executors(session, self._folder, context._python_includes[-1])
        self._watch = ExecutorWatch(self._master, count, java.stop, patience)
        self._watch.start()

    def view(self) -> SparkView | None:
        return self._view

    @contextmanager
    def errors(self) -> Iterator[None]:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError, ConnectionError) as error:
            log.info("Spark gave up a batch", exc_info=error)
            refused = not isinstance(error, PySparkException)
            raise (
                lost_java() if has_ended(_ENDS_S if refused else 0.0) else lost_task(str(error))
            ) from None

    @contextmanager
    def group(
        self,
        name: str,
        what: str,
        tell: Tell = _ignored,
        far: Callable[[str], None] | None = None,
    ) -> Iterator[None]:
        tell("waits for Spark to start")
        context = self.session().sparkContext
        context.setJobGroup(name, what, interruptOnCancel=True)
        tell(None)
        waiting = nullcontext() if self._watch is None else self._watch.job(tell)
        counting = nullcontext() if far is None else watching(context, name, far)
        with counting, waiting:
            yield

    def cancel(self, name: str) -> None:
        if not has_ended() and not self._starting.locked():
            self.session().sparkContext.cancelJobGroup(name)

    def partitions(self) -> int:
        """See `Spark`. Executors come and go, and each other number moves all state: it only grows
        while this process lives."""
        now: int = self.session().sparkContext.defaultParallelism
        self._most_cores = min(max(self._most_cores, now), BUCKETS)
        return self._most_cores

    def worker_memory(self) -> int | MachineShare | None:
        """See `Spark`. Of a session of this process its workers' share of their machine; None in
        one of somebody else, who knows better, and where Spark has a limit of its own."""
        if self._own is None or "spark.executor.pyspark.memory" in self._conf:
            return None
        if not is_local(self._master):
            return MachineShare(_heap(self._conf.get("spark.executor.memory", _HEAP)))
        cores: int = self._own.sparkContext.defaultParallelism
        return MachineShare(_heap(self._conf.get("spark.driver.memory", _HEAP)), cores).bytes()

    def close(self) -> None:
        self._closed.set()
        if self._watch is not None:
            self._watch.stop()
        if self._own is not None and not has_ended():
            self._own.stop()


def _heap(text: str) -> int:
    """Returns the bytes of a heap as Spark counts them: a bare number has megabytes."""
    return size(f"{text}m" if text.isdigit() else text)
