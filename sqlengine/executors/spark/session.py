"""Starts Spark in this process. What it prints goes to its log, never to standard output."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import TimeoutExpired
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol

from parser.errors import ServiceError
from sqlengine.config import LOCAL, Cluster
from sqlengine.executors.spark.boundary import lost_java, lost_task
from sqlengine.executors.spark.job_watch import watching
from sqlengine.executors.spark.view import SparkView, view_of
from sqlengine.system.memory import usable_bytes
from sqlengine.system.sizes import size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("sqlengine.spark")

_STDOUT: Final = 1
_STDERR: Final = 2
_HEAP: Final = "1g"
# A process that answers no more may take so many seconds to end.
_ENDS_S: Final = 3.0
# A task whose worker or executor dies is tried so often.
_ATTEMPTS: Final = 4
# No worker gets less memory than that, however many there are.
_LEAST_MEMORY: Final = 256 << 20


def require_spark() -> None:
    """Raises ServiceError, with what to install, if Spark or Java is missing."""
    if find_spec("pyspark") is None:
        raise ServiceError("Spark is not installed", hint="install sqlengine[spark]")
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise ServiceError(
            "Spark needs Java, which is not installed",
            hint="install Java 17 or newer, or set JAVA_HOME",
        )


def spark_session(
    app: str,
    cores: int = 2,
    memory: str = _HEAP,
    printed: Path | None = None,
    master: str | None = None,
    **options: str,
) -> SparkSession:
    """Starts a session, a small local one if no `master` is named. Its Python workers can import
    what this process can.

    `printed`: the file that gets what Spark and its workers print; None for standard error.
    `options`: settings of Spark, with `__` for the dots. ServiceError where Spark does not
    start."""
    require_spark()
    from pyspark.sql import SparkSession

    # It logs kilobytes of JSON with what the exceptions say.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    logging.getLogger("py4j").setLevel(logging.WARNING)  # else each connection that it closes
    root = str(Path(__file__).resolve().parents[3])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # A regular expression of Spark's own recurses deeply over long messages.
        "spark.driver.extraJavaOptions": "-Xss4m",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.ui.enabled": "false",
        "spark.ui.killEnabled": "false",  # whoever sees it could end jobs
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    if settings["spark.ui.enabled"] == "true":
        # It shows what runs to all who reach it: by default those on this machine.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master or f"local[{cores},{_ATTEMPTS}]").appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError

    _forget_ended()
    try:
        with _printing_to(printed):
            return builder.getOrCreate()
    except (PySparkRuntimeError, Py4JError, ConnectionError) as error:
        raise _does_not_start(error, printed) from error


def _has_ended(within_s: float = 0.0) -> bool:
    """True if Spark's Java process was started by this one, and has ended within a time."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    with suppress(TimeoutExpired):
        process.wait(within_s)
    return process.returncode is not None


def _forget_ended() -> None:
    """Lets the next session start a Java process of its own, where the last one has ended."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if _has_ended():
        SparkContext._gateway = SparkContext._jvm = None
        SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None


def _does_not_start(error: Exception, printed: Path | None) -> ServiceError:
    """Returns the error for a JVM that ended at once, with the first that it said."""
    said = [] if printed is None else printed.read_text("utf-8", "replace").split("\n")
    words = [
        line.strip() for line in said if line.strip() and not line.startswith("WARNING: Using")
    ]
    return ServiceError(
        "Spark does not start",
        detail=words[0][:300] if words else str(error),
        hint="Java 17 or newer is needed, at JAVA_HOME if that is set",
    )


@contextmanager
def _printing_to(printed: Path | None) -> Iterator[None]:
    """Redirects standard output and error to a file, or output to error. Processes that are started
    meanwhile (the JVM and its workers) keep that."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(_STDOUT), os.dup(_STDERR)
    if printed is not None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        file = os.open(printed, flags, 0o600)
        os.dup2(file, _STDERR)
        os.close(file)
    os.dup2(_STDERR, _STDOUT)
    try:
        yield
    finally:
        for old, number in zip(kept, (_STDOUT, _STDERR), strict=True):
            os.dup2(old, number)
            os.close(old)


class Spark(Protocol):
    """A Spark session for scripts and servers."""

    def session(self) -> SparkSession:
        """Returns the session, which the first call starts. ServiceError where it cannot start."""

    def unstarted(self) -> AbstractContextManager[None]:
        """In the body `session` starts none: where none is there, that is a ServiceError."""

    def errors(self) -> AbstractContextManager[None]:
        """Turns what Spark raises in the body into SqlErrors."""

    def group(
        self, name: str, what: str, tell: Callable[[str], None]
    ) -> AbstractContextManager[None]:
        """Gives the jobs of this thread a name, by which `cancel` knows them; Spark's UI shows
        `what` they are. `tell` is called with how far they are, from any thread."""

    def cancel(self, name: str) -> None:
        """Ends the jobs of that name: what waits for them raises. Any thread."""

    def view(self) -> SparkView | None:
        """Returns how the session does; None before the first call of `session`."""

    def worker_memory(self) -> int | None:
        """Returns the bytes that a Python worker may take; None for any."""

    def close(self) -> None: ...


class OwnSpark:
    """The active session, or else one of its own: it starts with the first statement and stops with
    the script or server. `printed`: see `spark_session`."""

    def __init__(self, printed: Path | None = None, cluster: Cluster = LOCAL) -> None:
        self._own: SparkSession | None = None
        self._printed = printed
        self._master = cluster.master
        self._conf = cluster.conf
        self._starting = Lock()
        self._may_start = True
        self._view: SparkView | None = None

    def session(self) -> SparkSession:
        from pyspark.sql import SparkSession

        with self._starting:
            if _has_ended():
                self._own = None
            _forget_ended()
            if self._own is not None:
                return self._own
            active = SparkSession.getActiveSession()
            if active is None and not self._may_start:
                raise ServiceError("Spark has not started yet")
            return active or self._start()

    @contextmanager
    def unstarted(self) -> Iterator[None]:
        self._may_start = False
        try:
            yield
        finally:
            self._may_start = True

    def _start(self) -> SparkSession:
        cores, began = len(os.sched_getaffinity(0)), monotonic()
        if self._view is None:
            log.info("Spark starts")
        else:
            log.warning("Spark starts again, its Java process has ended")
        self._own = spark_session(
            "sqlengine", cores, printed=self._printed, master=self._master, **self._conf
        )
        starts = 1 if self._view is None else self._view.starts + 1
        self._view = view_of(self._own, monotonic() - began, starts)
        log.info("%s; it took %.1f s to start", self._view, self._view.seconds)
        return self._own

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
                lost_java() if _has_ended(_ENDS_S if refused else 0.0) else lost_task(str(error))
            ) from None

    @contextmanager
    def group(self, name: str, what: str, tell: Callable[[str], None]) -> Iterator[None]:
        if self._own is not None and _has_ended():
            tell("its Java process has ended, it starts again")
        context = self.session().sparkContext
        context.setJobGroup(name, what, interruptOnCancel=True)
        with watching(context, name, tell):
            yield

    def cancel(self, name: str) -> None:
        if not _has_ended():
            self.session().sparkContext.cancelJobGroup(name)

    def worker_memory(self) -> int | None:
        """See `Spark`. Four fifths of the memory, without what the JVM takes, for all workers of
        this machine; None in a session of somebody else, who knows better."""
        if self._own is None:
            return None
        cores: int = self._own.sparkContext.defaultParallelism
        left = usable_bytes() - size(_HEAP)
        return max(left * 4 // 5 // cores, _LEAST_MEMORY)

    def close(self) -> None:
        if self._own is not None and not _has_ended():
            self._own.stop()
