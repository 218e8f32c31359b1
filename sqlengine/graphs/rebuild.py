"""Rebuilds compiled sets of rules in the background.

Many small changes leave deltas and masks behind. A few deltas are joined into one; once much has
changed, or nothing for a while, the whole set is compiled anew. Both happen in a thread of their
own, which yields to the stream, and the result, which is equivalent, replaces the old set. A set
that is compiled as a whole is cached on disk, where the next start finds it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from rules.compile import YieldControl
from rules.ruleset import RuleSet
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.operators.rules import RulesOperator
from sqlengine.system.threads import THREADS, Later, Threads, Timer

Work: TypeAlias = Callable[[RuleSet, YieldControl], RuleSet]

log = logging.getLogger("sqlengine")

# A set is compiled anew after this time without a change, and at least this multiple of the time
# that the last rebuild took.
QUIET_S, QUIET_FACTOR = 5.0, 20.0
# After each slice of this CPU time the thread sleeps this multiple of it, up to the maximum.
SLICE_S, SLEEP_FACTOR, MAX_SLEEP_S = 0.002, 3.0, 0.1


class Rebuilder:
    """Rebuilds the sets of rules of one executor.

    `later` submits work to the thread that makes changes: only there a rebuilt set replaces the
    old one."""

    def __init__(
        self, executor: EmbeddedExecutor, later: Later, threads: Threads = THREADS
    ) -> None:
        self._executor = executor
        self._threads = threads
        self._later = later
        self._pool = threads.serial_executor("rebuild")
        self._busy: set[str] = set()
        self._quiet_s = QUIET_S
        self._quiet_at = 0.0
        self._timer: Timer | None = None
        self._closing = threading.Event()

    def look(self) -> None:
        """Starts the rebuilds that are needed. Called after each change, by the thread that makes
        changes."""
        self._start(lambda ruleset: ruleset.needs_rebuild, RuleSet.rebuilt)
        self._start(lambda ruleset: ruleset.needs_compaction, RuleSet.compacted)
        self._quiet_at = self._threads.now() + self._quiet_s
        if self._timer is None:
            self._wait(self._quiet_s)

    def _start(self, wanted: Callable[[RuleSet], bool], work: Work) -> None:
        for name, node in self._executor.running.items():
            operator = node.operator
            if not isinstance(operator, RulesOperator) or name in self._busy:
                continue
            if wanted(operator.compiled.ruleset):
                self._busy.add(name)
                self._pool.submit(self._rebuild, name, operator.compiled.ruleset, work)

    def _wait(self, seconds: float) -> None:
        self._timer = self._threads.later(seconds, self._woken)

    def _woken(self) -> None:
        with suppress(RuntimeError):  # the engine is being closed
            self._later(self._rebuild_when_quiet)

    def _rebuild_when_quiet(self) -> None:
        """Rebuilds sets with deltas if there were no changes for a while."""
        left = self._quiet_at - self._threads.now()
        if left > 0:
            self._wait(left)
            return
        self._timer = None
        if self._busy:  # joining, as a rule
            self._wait(self._quiet_s)
        self._start(lambda ruleset: not ruleset.is_freshly_compiled, RuleSet.rebuilt)

    def _rebuild(self, name: str, before: RuleSet, work: Work) -> None:
        begin = time.thread_time()
        try:
            self._later(partial(self._swap, name, work(before, self._pace())))
        except Exception:  # the old set goes on, and nobody asks for what became of the new one
            if not self._closing.is_set():
                log.exception("the rules of '%s' could not be compiled anew", name)
        finally:
            # Here, although `_swap` runs later in another thread: a rebuild that failed must not
            # block the next.
            self._busy.discard(name)
            self._quiet_s = max(QUIET_S, QUIET_FACTOR * (time.thread_time() - begin))

    def _pace(self) -> YieldControl:
        """Returns a function that a compilation calls often, and that sleeps in between.

        Compiling holds the interpreter's lock for long stretches, for which the stream would wait
        each time."""
        last = time.thread_time()

        def yield_control() -> None:
            nonlocal last
            # CPU time of this thread: waiting for the interpreter's lock does not count.
            spent = time.thread_time() - last
            if spent >= SLICE_S:
                self._closing.wait(min(SLEEP_FACTOR * spent, MAX_SLEEP_S))
                last = time.thread_time()

        return yield_control

    def _swap(self, name: str, rebuilt: RuleSet) -> None:
        node = self._executor.running.get(name)
        if node is None or not isinstance(node.operator, RulesOperator):
            return
        operator = node.operator
        ready = operator.compiled.ruleset.rebased_onto(rebuilt)  # with the changes made since
        # It matches the same rows as the old set, so it may be replaced within an epoch.
        operator.compiled = replace(operator.compiled, ruleset=ready)

    def close(self) -> None:
        """Stops rebuilding; waits for the rebuild that runs."""
        self._closing.set()
        if self._timer is not None:
            self._timer.cancel()
        self._pool.shutdown(wait=True)
