"""What comes of an operator that raises, which is a fault of ours: it costs as few rows and jobs as can be.

Without state the rows at fault are found by halving and become dead letters. With state what is in memory is worth
nothing any more: the graph goes back to its last checkpoint and on without the jobs behind that operator."""

from __future__ import annotations

import logging

from planner.physical import PhysicalNode
from sqlengine.batch import Batch
from sqlengine.executors.failures import OperatorFailed
from sqlengine.operators.base import ERROR_PORT, Operator, Output, Stream
from sqlengine.operators.dead_letters import dead_letters

log = logging.getLogger("sqlengine")


def process(node: PhysicalNode, operator: Operator, stateful: bool, port: int, batch: Batch) -> Stream:
    """The operator's output. OperatorFailed when it raised and rows cannot be told apart."""
    if not stateful:
        yield from _contained(node, operator, port, batch)
        return
    try:
        yield from operator.process(port, batch)
    except Exception as error:
        raise OperatorFailed(node, error) from error


def _contained(node: PhysicalNode, operator: Operator, port: int, batch: Batch) -> Output:
    try:
        return list(operator.process(port, batch))
    except Exception as error:
        if not batch.num_rows:
            raise OperatorFailed(node, error) from error
        if batch.num_rows == 1:
            log.exception("%s raised for one row, which becomes a dead letter", subject(node))
            return [(ERROR_PORT, _letter(node, batch, error))]
        half = batch.num_rows // 2
        parts = (batch.slice(0, half), batch.slice(half, batch.num_rows - half))
        return [out for part in parts for out in _contained(node, operator, port, part)]


def _letter(node: PhysicalNode, row: Batch, error: Exception) -> Batch:
    """Owned by the job, or by the stream ('') where many share the operator."""
    owner = next(iter(node.jobs)) if len(node.jobs) == 1 else ""
    reason = f"internal error: {type(error).__name__}: {error}"
    return dead_letters(row, owner=owner, place=row.origin, subject=subject(node), reason=reason)


def subject(node: PhysicalNode) -> str:
    """The operator in words."""
    return f"operator {type(node.plan).__name__} ({node.id[:12]})"
