"""A watch over running jobs of Spark, for people who wait for a long epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger("sqlengine.spark")

_EVERY_S: Final = 1.0


@contextmanager
def watching(context: SparkContext, group: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Tells once a second how far the jobs of a group are, while the body runs, in a thread of its
    own: a Java process that hangs holds up nobody else."""
    ended = Event()

    def watch() -> None:
        while not ended.wait(_EVERY_S):
            try:
                far = how_far(context, group)
            except Exception as error:
                log.debug("the tasks of group %s cannot be counted", group, exc_info=error)
                return
            if far and not ended.is_set():
                tell(far)

    Thread(target=watch, name="spark-watch", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def how_far(context: SparkContext, group: str) -> str:
    """Returns how many tasks of the running job of a group are done; '' where none runs."""
    tracker = context.statusTracker()
    running = set(tracker.getJobIdsForGroup(group)).intersection(tracker.getActiveJobsIds())
    jobs = filter(None, map(tracker.getJobInfo, running))
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    if not known:
        return ""
    done, total = sum(s.numCompletedTasks for s in known), sum(s.numTasks for s in known)
    failed = sum(s.numFailedTasks for s in known)
    again = f", {failed} failed and begun again" if failed else ""
    return f"{done} of {total} tasks done{again}"
