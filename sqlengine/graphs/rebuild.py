"""The background rebuild: many small changes leave deltas and masks behind. A few deltas are joined
to one; once much has changed, or nothing for a while, a new set of rules is compiled. Both are done
in a thread of their own, which gives way to the stream, and put in place of the old set, which they
equal. What is compiled as a whole is on disk, so that the next start finds there what it needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from rules.compile import YieldControl
from rules.ruleset import RuleSet
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.operators.rules import RulesOperator
from sqlengine.system.threads import THREADS, Threads, Timer

Work: TypeAlias = Callable[[RuleSet, YieldControl], RuleSet]

# After so many seconds without a change; at least so many times what a rebuild takes.
QUIET_S, QUIET_TIMES = 5.0, 20.0
# After each part of so much CPU time the thread sleeps so many times as long, but never longer than
# that.
PART_S, SLEEP_TIMES, LONGEST_SLEEP_S = 0.002, 3.0, 0.1


class Rebuilder:
    """`later` hands work to the thread that makes changes: only there is a rebuilt set put in
    place."""

    def __init__(
        self, executor: EmbeddedExecutor, later: Callable[..., object], threads: Threads = THREADS
    ) -> None:
        self._executor = executor
        self._threads = threads
        self._later = later
        self._pool = threads.line("rebuild")
        self._busy: set[str] = set()
        self._quiet_s = QUIET_S
        self._quiet_at = 0.0
        self._timer: Timer | None = None
        self._closing = threading.Event()

    def look(self) -> None:
        """Starts what needs to be rebuilt. Called from the thread that makes changes, after each of
        them."""
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
        with suppress(RuntimeError):  # closed in this moment
            self._later(self._settle)

    def _settle(self) -> None:
        """Rebuilds what small changes have left behind, if there were none for a while."""
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
            self._later(self._swap, name, work(before, self._pace()))
        finally:
            self._busy.discard(name)
            self._quiet_s = max(QUIET_S, QUIET_TIMES * (time.thread_time() - begin))

    def _pace(self) -> YieldControl:
        """Compiling holds the interpreter's lock in pieces, and whoever waits for it waits for the
        whole piece each time: the stream gets most of the time for itself."""
        last = time.thread_time()

        def yield_control() -> None:
            nonlocal last
            spent = time.thread_time() - last
            if spent >= PART_S:
                self._closing.wait(min(SLEEP_TIMES * spent, LONGEST_SLEEP_S))
                last = time.thread_time()

        return yield_control

    def _swap(self, name: str, rebuilt: RuleSet) -> None:
        node = self._executor.running.get(name)
        if node is None or not isinstance(node.operator, RulesOperator):
            return
        operator = node.operator
        ready = operator.compiled.ruleset.rebased_onto(rebuilt)  # with what has changed since
        # It finds what the old one does, so that no epoch needs to end for it: the next batch sees
        # it.
        operator.compiled = replace(operator.compiled, ruleset=ready)

    def close(self) -> None:
        self._closing.set()
        if self._timer is not None:
            self._timer.cancel()
        self._pool.shutdown(wait=True)
