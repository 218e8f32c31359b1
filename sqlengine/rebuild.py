"""The background rebuild: many small changes leave deltas and masks behind; once there are enough of them a new set of
rules is compiled in a thread of its own and put in place of the old one, which it equals."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from rules.ruleset import RuleSet
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.loop import GraphLoop
from sqlengine.operators.rules import RulesOperator


class Rebuilder:
    """`later` hands work to the thread that makes changes: only there is a rebuilt set put in place."""

    def __init__(self, executor: EmbeddedExecutor, loop: GraphLoop, later: Callable[..., object]) -> None:
        self._executor = executor
        self._loop = loop
        self._later = later
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="rebuild")
        self._busy: set[str] = set()

    def look(self) -> None:
        """Starts what needs to be rebuilt. Called from the thread that makes changes, after each of them."""
        for name, node in self._executor.running.items():
            operator = node.operator
            if not isinstance(operator, RulesOperator) or name in self._busy:
                continue
            if operator.compiled.ruleset.needs_rebuild:
                self._busy.add(name)
                self._pool.submit(self._rebuild, name, operator.compiled.ruleset)

    def _rebuild(self, name: str, before: RuleSet) -> None:
        try:
            rebuilt = before.rebuilt()
            self._later(self._swap, name, rebuilt)
        finally:
            self._busy.discard(name)

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
        self._pool.shutdown(wait=True)
