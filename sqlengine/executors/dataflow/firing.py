"""The operators of one graph that fire in steps: which have more to fire, and the ticks by which
they go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np

from planner.logical import LogicalPlan
from sqlengine.batch import Batch, empty
from sqlengine.executors.dataflow.running_node import RunningNode
from sqlengine.executors.epochs import Resumption
from sqlengine.operators.base import Operator
from sqlengine.operators.firing_steps import FiresInSteps, FiringLimit


class Firing:
    """The operators among `running` that fire in steps, within one `limit`."""

    def __init__(self, running: Mapping[str, RunningNode]) -> None:
        self._running = running
        self.limit = FiringLimit()

    @property
    def unfinished(self) -> bool:
        """True while an operator has, or may have, more to fire."""
        return bool(self.limit.waiting)

    def share(self, operator: Operator, node: str) -> None:
        """Sets the limit of an operator before it opens."""
        if isinstance(operator, FiresInSteps):
            operator.steps.share(self.limit, node)

    def remove(self, node: str) -> None:
        """Follows a node that goes."""
        self.limit.waiting.pop(node, None)

    def resumptions(self) -> tuple[Resumption, ...]:
        """The operators that have more to fire, but for those before others: what these have left
        must be done before they get more."""
        known = [
            Resumption(node, steps.watermark, steps.passed, steps.idle)
            for node, steps in self.limit.waiting.items()
            if steps.watermark is not None
        ]
        last = [r for r in known if not self._behind(r.node).intersection(s.node for s in known)]
        return tuple(sorted(last, key=lambda r: (-self._running[r.node].node.rank, r.node)))

    def _behind(self, node: str) -> set[str]:
        """The operators that get rows of a node, also by way of others."""
        found, left = set[str](), [node]
        while left:
            edges = chain.from_iterable(self._running[left.pop()].node.edges.values())
            new = {e.target for e in edges if e.target in self._running} - found
            found |= new
            left += new
        return found

    def take_unknown(self) -> bool:
        """True if operators were restored since the last call of which it is not known whether they
        have more to fire: a tick tells."""
        unknown = [n for n, steps in self.limit.waiting.items() if steps.watermark is None]
        for node in unknown:
            del self.limit.waiting[node]
        return bool(unknown)

    def resume(self, resumption: Resumption, proctime: int, seed: int) -> Batch | None:
        """Returns the tick that lets an operator fire more of what is due, which it must get next;
        None if it runs no more."""
        running = self._running.get(resumption.node)
        if running is None:
            return None
        since, *steps = resumption.passed
        if isinstance(running.operator, FiresInSteps):
            running.operator.steps.resumed = True
        plan = running.node.plan
        assert isinstance(plan, LogicalPlan), "rules have nothing to fire"
        tick = empty(plan.inputs[0].schema, proctime=proctime, watermark=resumption.watermark)
        tick = replace(tick, seed=seed, idle=resumption.idle, since=since)
        return replace(tick, steps=np.array(steps, np.int64))

    def restore(self, resumptions: Iterable[Resumption]) -> None:
        """Sets what operators had left to fire at the checkpoint that was restored: nothing, if
        they are not among these."""
        self.limit.waiting.clear()
        for left in resumptions:
            node = self._running.get(left.node)
            if node is not None and isinstance(node.operator, FiresInSteps):
                node.operator.steps.restore(left.watermark, left.passed, left.idle)
