"""The background rebuild: many small changes leave deltas and masks behind; once there are enough of them, or no more for
a while, a new set of rules is compiled in a thread of its own and put in place of the old one, which it equals. What it
compiles is on disk, so that the next start finds there what it needs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from rules.ruleset import RuleSet
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.loop import GraphLoop
from sqlengine.operators.rules import RulesOperator

# After so many seconds without a change; at least so many times what a rebuild takes.
QUIET_S, QUIET_TIMES = 5.0, 20.0


class Rebuilder:
    """`later` hands work to the thread that makes changes: only there is a rebuilt set put in place."""

    def __init__(self, executor: EmbeddedExecutor, loop: GraphLoop, later: Callable[..., object]) -> None:
        self._executor = executor
        self._loop = loop
        self._later = later
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rebuild")
        self._busy: set[str] = set()
        self._quiet_s = QUIET_S
        self._quiet_at = 0.0
        self._timer: threading.Timer | None = None

    def look(self) -> None:
        """Starts what needs to be rebuilt. Called from the thread that makes changes, after each of them."""
        self._start(lambda ruleset: ruleset.needs_rebuild)
        self._quiet_at = time.monotonic() + self._quiet_s
        if self._timer is None:
            self._wait(self._quiet_s)

    def _start(self, wanted: Callable[[RuleSet], bool]) -> None:
        for name, node in self._executor.running.items():
            operator = node.operator
            if not isinstance(operator, RulesOperator) or name in self._busy:
                continue
            if wanted(operator.compiled.ruleset):
                self._busy.add(name)
                self._pool.submit(self._rebuild, name, operator.compiled.ruleset)

    def _wait(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._woken)
        self._timer.daemon = True
        self._timer.start()

    def _woken(self) -> None:
        with suppress(RuntimeError):  # closed in this moment
            self._later(self._settle)

    def _settle(self) -> None:
        """Rebuilds what small changes have left behind, if there were none for a while."""
        left = self._quiet_at - time.monotonic()
        if left > 0:
            self._wait(left)
            return
        self._timer = None
        self._start(lambda ruleset: not ruleset.is_whole)

    def _rebuild(self, name: str, before: RuleSet) -> None:
        begin = time.monotonic()
        try:
            rebuilt = before.rebuilt()
            self._later(self._swap, name, rebuilt)
        finally:
            self._busy.discard(name)
            self._quiet_s = max(QUIET_S, QUIET_TIMES * (time.monotonic() - begin))

    def _swap(self, name: str, rebuilt: RuleSet) -> None:
        node = self._executor.running.get(name)
        if node is None or not isinstance(node.operator, RulesOperator):
            return
        operator = node.operator
        ready = operator.compiled.ruleset.onto(rebuilt)  # with what has changed since

        def swap() -> None:
            operator.compiled = replace(operator.compiled, ruleset=ready)

        self._loop.call(swap)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._pool.shutdown(wait=True)
