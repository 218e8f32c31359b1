"""The boundary of Spark: what fails in a task is a failure of the jobs that the task works for, and
of no other.

A failure is a value. A task that fails ends well, as far as Spark knows, and its failure travels
as a frame to all partitions behind it: none of them runs over a part of its input, or keeps the
state of that, and the driver raises the error of the jobs before it writes anything of the batch.
So Spark repeats nothing whose records or connectors are at fault. It repeats tasks whose worker or
executor dies; `lost_task` says so where they die again and again.

This module does not import Spark."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ExecutionError, SqlError
from sqlengine.executors.failures import (
    ExecutorUnavailable,
    JobsFailed,
    OperatorFailed,
    Unreadable,
)
from sqlengine.executors.memory_limits import megabytes
from sqlengine.executors.spark.tasks.steps import within_timeouts
from sqlengine.executors.spark.tasks.work import TaskClock
from sqlengine.executors.spark.worker import (
    FAILED,
    Batches,
    Counts,
    SparkPlan,
    Step,
    to_frames,
)

log = logging.getLogger("sqlengine.spark")

_SHOWN: Final = 300  # characters of an exception
# The words of Spark and Python for an interpreter that is missing, another one, and a library that
# is missing.
_NO_PYTHON: Final = (
    "Cannot run program",
    "[PYTHON_VERSION_MISMATCH]",
    "ModuleNotFoundError: ",
    "ImportError: ",
)
_SAID: Final = "'sql run --verbose' shows what Spark says, spark.log in the data folder of a server"
_SMALLER: Final = "smaller reads ('sql run --batch-size'), narrower windows and keys take less"


class Failure(msgspec.Struct, frozen=True, order=True):
    """An error in a task, for people. `jobs`: those at fault; none where nobody knows.
    `unreadable`: the task lacks what the driver can read; `lasting`: as of `JobsFailed`."""

    message: str
    detail: str | None = None
    hint: str | None = None
    jobs: tuple[str, ...] = ()
    unreadable: bool = False
    lasting: bool = False


class TaskFailed(JobsFailed):
    """Jobs failed in a task of Spark."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message, detail=failure.detail, hint=failure.hint)
        self.jobs = frozenset(failure.jobs)
        self.unreadable = failure.unreadable


class TaskFailedForGood(TaskFailed):
    """Jobs failed in a task of Spark, and would again."""

    lasting: ClassVar[bool] = True


# ---- in a task -----------------------------------------------------------------------------------


def contained(
    plan: SparkPlan, step: Step, run: Callable[[Batches], Batches], batches: Batches
) -> Batches:
    """Runs a stage in a task, under the rules of its plan. What it raises becomes a failure; behind
    all else comes what the task has cost."""
    clock = TaskClock()
    try:
        plan.rules.apply()
        frames = plan.functions.around(plan.graph, run(batches))
        yield from within_timeouts(plan.timeouts, frames)
        yield Counts(losses=plan.functions.take_losses(), work=clock.work()).frame()
    except Exception as error:
        log.info("a task on Spark failed", exc_info=error)
        yield _to_all(failure_of(error, plan.rules.memory_here()), step)
        for _ in batches:  # Spark waits until all that it hands over is read
            pass


def failure_of(error: BaseException, memory: int | None = None) -> Failure:
    """Returns what people are told of an exception in a task, which may take so many bytes."""
    jobs = tuple(sorted(error.jobs)) if isinstance(error, JobsFailed | OperatorFailed) else ()
    if isinstance(error, SqlError):
        unreadable = isinstance(error, Unreadable)
        lasting = isinstance(error, JobsFailed) and error.lasting
        return Failure(error.message, error.detail, error.hint, jobs, unreadable, lasting)
    if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError):
        most = "" if memory is None else f": it may take {megabytes(memory)}"
        return Failure("a task on Spark needs more memory", f"of a Python worker{most}", _SMALLER)
    if isinstance(error, OperatorFailed):
        return Failure(str(error), jobs=jobs)
    return Failure("internal error in a task on Spark", _words(type(error).__name__, str(error)))


def _to_all(failure: Failure, step: Step) -> pa.RecordBatch:
    data = msgspec.json.encode(failure)
    return to_frames([(p, FAILED, 0, "", 0, 0, 0, 0, 0, data) for p in range(step.partitions)])


def failed(frames: pa.Table) -> pa.Table:
    """Returns the frames that are failures."""
    return frames.filter(pc.equal(frames["stage"], FAILED))


# ---- in the driver -------------------------------------------------------------------------------


def failures_in(frames: pa.Table) -> list[Failure]:
    """Returns the failures of a batch, each once, in an order that does not depend on how the tasks
    ran; first those that another attempt may not have."""
    texts = failed(frames)["batch"].unique().to_pylist()
    found = sorted((msgspec.json.decode(t, type=Failure) for t in texts), key=msgspec.json.encode)
    return sorted(found, key=lambda failure: not failure.unreadable)


def error_of(failure: Failure) -> TaskFailed:
    """Returns the error of a failure."""
    return (TaskFailedForGood if failure.lasting else TaskFailed)(failure)


def unavailable(error: SqlError) -> ExecutorUnavailable:
    """Returns the error of a graph for what Spark itself failed with."""
    return ExecutorUnavailable(error.message, detail=error.detail, hint=error.hint)


def lost_java() -> ExecutionError:
    """Returns the error for a Java process that has ended; the next statement starts another."""
    return ExecutionError(
        "Spark's Java process ended in the midst of the statement",
        detail="something ended it: the system for want of memory, or somebody",
        hint=f"{_SAID}; {_SMALLER}",
    )


def lost_task(text: str) -> ExecutionError:
    """Returns the error for what Spark says of tasks that it gave up: `text` may be pages of
    traces."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("at ", "..."))]
    if any("Python worker exited unexpectedly" in line for line in lines):
        return ExecutionError(
            "a Python worker of Spark ended in the midst of a task, in each attempt",
            detail="something ended the process: the system for want of memory, or a library",
            hint=f"{_SAID}; {_SMALLER}",
        )
    if (cannot := _no_python(lines)) is not None:
        return cannot
    if any("OutOfMemoryError" in line for line in lines):
        return ExecutionError(
            "Spark needs more memory",
            detail=next(line for line in lines if "OutOfMemoryError" in line)[:_SHOWN],
            hint=_SMALLER,
        )
    kind, _, cause = (lines or [""])[-1].partition(": ")
    detail = cause if "parser.errors." in kind else _words(kind, cause)
    return ExecutionError("a task on Spark failed", detail=detail, hint=_SAID)


def _no_python(lines: Sequence[str]) -> ExecutionError | None:
    """Returns the error for executors whose Python cannot run tasks; None for any other."""
    found = next((line[line.index(s) :] for s in _NO_PYTHON for line in lines if s in line), None)
    if found is None:
        return None
    return ExecutionError(
        "the Python of Spark's executors cannot run the engine",
        detail=found[:_SHOWN],
        hint=f"each machine needs Python {sys.version_info.major}.{sys.version_info.minor} with"
        " sqlengine[spark] at the same path, or at --spark-conf spark.pyspark.python=PATH",
    )


def _words(kind: str, text: str) -> str:
    text = " ".join(text.split())
    text = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return f"{kind}: {text}" if text else kind
