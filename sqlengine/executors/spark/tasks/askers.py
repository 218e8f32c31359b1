"""Tables that tasks ask for rows: a worker keeps connections and answers over tasks. Does not
import Spark."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from planner.logical import AskedScan
from sqlengine.executors.dimensions.asking import TableAsker
from sqlengine.executors.spark.tasks.rules import TaskRules
from sqlengine.formats.base import OutOfReach
from sqlengine.operators.joins.asked import Answered, Questions

_MOST: Final = 64
# Those of this worker by the digest of their scan, the one that was used last at the end.
_askers: OrderedDict[str, TableAsker] = OrderedDict()


@dataclass(frozen=True)
class TaskAskers:
    """Opens tables that tasks ask under these rules."""

    rules: TaskRules

    def __call__(self, scan: AskedScan) -> KeptAsker:
        """Returns what asks a table; it connects when it is asked."""
        return KeptAsker(scan, self.rules)


@dataclass(frozen=True)
class KeptAsker:
    """Asks a table as `TableAsker` does; what it opens stays open for the next task."""

    scan: AskedScan
    rules: TaskRules

    def rows_of(self, questions: Questions, proceed: Callable[[], None]) -> Answered:
        """See `TableAsker`."""
        name = self.scan.digest
        asker = _askers.get(name)
        if asker is None:
            asker = _askers[name] = TableAsker(self.scan, self.rules.environment(_now_ms))
        _askers.move_to_end(name)
        while len(_askers) > _MOST:
            _askers.popitem(last=False)[1].close()
        try:
            return asker.rows_of(questions, proceed)
        except OutOfReach:
            # It knows the secrets of its time: the next one is opened with those of then.
            _askers.pop(name).close()
            raise

    def close(self) -> None: ...


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
