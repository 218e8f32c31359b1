"""Threads that answer requests, in lanes: whoever waits takes no thread of those who do not.

health     /healthz and /readyz
metrics    /metrics
waiting    requests that are held until there is something to tell, as many as may wait
changes    changes of jobs, topics and the like, which wait for each other
refused    errors that the server itself answers
ordinary   all others"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Final, Literal, Protocol, TypeAlias
from urllib.parse import parse_qs

from parser.limits import present
from sqlengine.api.serving.admission import Head

log = logging.getLogger("sqlengine")

LaneName: TypeAlias = Literal["health", "metrics", "waiting", "changes", "refused", "ordinary"]
# The content type of server-sent events.
EVENTS: Final = "text/event-stream"
BROKER: Final = "/api/v1/broker"
_QUERIES: Final = "/api/v1/queries"
_READS: Final = ("GET", "HEAD", "OPTIONS")
_RESULT_OF_GATEWAY: Final = re.compile(r"/v[123]/sessions/[^/]+/operations/[^/]+/result/\d+")
_CONFIGURES: Final = re.compile(r"/v[123]/sessions/[^/]+/configure-session")


def lane_of(head: Head) -> LaneName:
    """Returns the lane of a request.

    A request to the broker says in its head that it waits (Prefer: wait, RFC 7240), since its body
    is not read here.

    >>> lane_of(Head("GET", "/api/v1/topics/t/records", "offset=7&wait=1"))
    'waiting'
    >>> lane_of(Head("PUT", "/api/v1/jobs/a", ""))
    'changes'
    """
    if head.path in ("/healthz", "/readyz"):
        return "health"
    if head.path in ("/metrics", "/api/v1/metrics"):
        return "metrics"
    if head.path == BROKER:
        return "waiting" if head.headers.get("prefer", "").startswith("wait") else "ordinary"
    if _waits(head):
        return "waiting"
    changes = head.method not in _READS and not head.path.endswith("/records")
    return "changes" if changes else "ordinary"


def _waits(head: Head) -> bool:
    """Returns whether a request waits for records, for rows of a query, for its columns, or for
    events."""
    if EVENTS in head.headers.get("accept", ""):
        return True
    if head.method == "POST":
        return head.path == _QUERIES or _CONFIGURES.fullmatch(head.path) is not None
    if head.method == "GET" and _RESULT_OF_GATEWAY.fullmatch(head.path):
        return True
    wait = _wait_of(head.query)
    if head.method == "GET" and head.path.startswith(f"{_QUERIES}/"):
        return wait != ["0"]
    return wait is not None and wait != ["0"]


def _wait_of(query: str) -> list[str] | None:
    """Returns what a query says of waiting, which is seldom there, but may be in another form."""
    if "wait" not in query and "%" not in query:
        return None
    return parse_qs(query, keep_blank_values=True).get("wait")


class Task(Protocol):
    """A connection with a request that is complete."""

    def service(self) -> None:
        """Answers the request."""

    def cancel(self) -> None:
        """Drops the request."""


class Lane:
    """At most `threads` threads, each made when all others have something to do. With `queued`
    False, no task waits for a thread."""

    def __init__(self, name: str, threads: int, *, queued: bool = True) -> None:
        self._name = name
        self._most = threads
        self._queued = queued
        self._tasks: deque[Task] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._ended = False

    def add(self, task: Task) -> bool:
        """Has the task run; False if no thread is free and none may wait for one."""
        with self._changed:
            full = self._threads >= self._most and len(self._tasks) >= self._idle
            if full and not self._queued:
                return False
            self._tasks.append(task)
            if len(self._tasks) > self._idle and not full:
                self._threads += 1
                threading.Thread(target=self._run, name=f"http-{self._name}", daemon=True).start()
            else:
                self._changed.notify()
            return True

    def end(self, deadline: float) -> None:
        """Runs no more tasks, waits for those that run until `deadline` (monotonic), and drops the
        others."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            while self._threads and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            if self._threads:
                log.warning("%d requests are still at work", self._threads)
            dropped = list(self._tasks)
            self._tasks.clear()
        for task in dropped:
            task.cancel()

    def _run(self) -> None:
        while (task := self._next()) is not None:
            try:
                task.service()
            except Exception:
                log.exception("a request was not answered")

    def _next(self) -> Task | None:
        with self._changed:
            while not self._tasks and not self._ended:
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            if self._ended:
                self._threads -= 1
                self._changed.notify_all()
                return None
            return self._tasks.popleft()


def make_lanes(ordinary: int) -> Mapping[LaneName, Lane]:
    """Returns the lanes of a server whose ordinary requests have so many threads."""
    return {
        "health": Lane("health", 2),
        "metrics": Lane("metrics", 1),
        "waiting": Lane("waiting", present().waiting_requests, queued=False),
        "changes": Lane("changes", 32),
        "refused": Lane("refused", 1),
        "ordinary": Lane("ordinary", ordinary),
    }
