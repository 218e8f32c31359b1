"""Spark's Java process: whether it can start, where it prints, and whether it has ended."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

from parser.errors import ServiceError

_STDOUT: Final = 1
_STDERR: Final = 2
_NEEDED: Final = "install Java 17 or newer, or set JAVA_HOME to its folder"
# Spark's own words for a master that does not answer as one.
_NO_MASTER: Final = ("All masters are unresponsive", "stopped SparkContext")


def require_spark() -> None:
    """Raises ServiceError, with what to install, if Spark or Java is missing."""
    if find_spec("pyspark") is None:
        raise ServiceError("Spark is not installed", hint="install sqlengine[spark]")
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(f"{home}/bin/java", os.X_OK):
        raise ServiceError(
            "Spark needs Java, which is not at JAVA_HOME",
            detail=f"there is no program '{home}/bin/java'",
            hint=_NEEDED,
        )
    if not home and shutil.which("java") is None:
        raise ServiceError("Spark needs Java, which is not installed", hint=_NEEDED)


def has_ended(within_s: float = 0.0) -> bool:
    """True if Spark's Java process was started by this one, and has ended within a time."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    with suppress(TimeoutExpired):
        process.wait(within_s)
    return process.returncode is not None


def forget_ended() -> None:
    """Lets the next session start a Java process of its own, where the last one has ended."""
    from pyspark import SparkContext

    if has_ended():
        SparkContext._gateway = SparkContext._jvm = None
        forget_session()


def forget_session() -> None:
    """Lets the next session be another one. Threads that still use the last get errors from it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def does_not_start(error: Exception, printed: Path | None, master: str | None) -> ServiceError:
    """Returns the error for a session that does not start, with the cause, or the first words, of
    Java."""
    said = "" if printed is None else printed.read_text("utf-8", "replace")
    java = getattr(error, "java_exception", None)
    cause = "" if java is None else str(java.toString())
    if any(sign in text for sign in _NO_MASTER for text in (said, cause)):
        return ServiceError(
            f"the master of Spark does not answer: {master}",
            detail="something else listens at that address, or another version of Spark",
            hint="give --master the address that the log and the page of the master say",
        )
    lines = [line.strip() for line in (cause or said).split("\n")]
    words = [line for line in lines if line and "WARN" not in line]
    return ServiceError(
        "Spark does not start",
        detail=words[0][:300] if words else str(error),
        hint="Java 17 or newer is needed, at JAVA_HOME if that is set",
    )


@contextmanager
def printing_to(printed: Path | None) -> Iterator[None]:
    """Redirects standard output and error to a file, or output to error. Processes that are started
    meanwhile (the JVM and its workers) keep that."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(_STDOUT), os.dup(_STDERR)
    if printed is not None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
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
