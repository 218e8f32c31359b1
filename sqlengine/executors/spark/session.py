"""Starts Spark in this process. Nothing that it prints reaches standard output."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from parser.errors import ExecutionError, ServiceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STDOUT: Final = 1
_STDERR: Final = 2


def require_spark() -> None:
    """Raises ServiceError, with what to install, if Spark or Java is missing."""
    if find_spec("pyspark") is None:
        raise ServiceError("Spark is not installed", hint="install sqlengine[spark]")
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        raise ServiceError(
            "Spark needs Java, which is not installed",
            hint="install Java 17 or newer, or set JAVA_HOME",
        )


def spark_session(app: str, cores: int = 2, memory: str = "1g", **options: str) -> SparkSession:
    """Starts a small local session. Its Python workers can import what this process can.

    `options`: settings of Spark, with `__` for the dots."""
    require_spark()
    from pyspark.sql import SparkSession

    # It logs kilobytes of JSON with what the exceptions say.
    logging.getLogger("SQLQueryContextLogger").disabled = True
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
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        # A file is read by one task, so that its lines stay in order.
        "spark.sql.files.maxPartitionBytes": "1g",
        "spark.sql.files.openCostInBytes": "1g",
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _stdout_to_stderr():
        return builder.getOrCreate()


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirects standard output to standard error. Processes that are started meanwhile (the JVM
    and its workers) keep that."""
    sys.stdout.flush()
    kept = os.dup(_STDOUT)
    os.dup2(_STDERR, _STDOUT)
    try:
        yield
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)


class Spark(Protocol):
    """A Spark session for scripts."""

    def session(self) -> SparkSession: ...

    def errors(self) -> AbstractContextManager[None]:
        """Turns errors of tasks that run in the body into SqlErrors."""

    def close(self) -> None: ...


class OwnSpark:
    """The active session, or else one on all cores of this machine: it starts with the first
    statement and stops with the script."""

    def __init__(self) -> None:
        self._own: SparkSession | None = None

    def session(self) -> SparkSession:
        from pyspark.sql import SparkSession

        active = SparkSession.getActiveSession()
        if active is None:
            active = self._own = spark_session("sqlengine", cores=len(os.sched_getaffinity(0)))
        return active

    @contextmanager
    def errors(self) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JJavaError) as error:
            raise ExecutionError("a task failed on Spark", detail=_cause(str(error))) from error

    def close(self) -> None:
        if self._own is not None:
            self._own.stop()


def _cause(trace: str) -> str:
    """The last line of a Python traceback; the text alone of the engine's own errors."""
    lines = [
        line.strip() for line in trace.splitlines() if line.strip() and not line.startswith("\tat ")
    ]
    kind, _, text = (lines or [""])[-1].partition(": ")
    return text if "parser.errors." in kind else f"{kind}: {text}"
