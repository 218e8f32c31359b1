"""What comes of an operator that raises, which is a fault of ours: it costs as few rows and jobs as
can be.

Without state the rows at fault are found by halving and become dead letters. With state what is in
memory is worth nothing any more: the graph goes back to its last checkpoint and on without the jobs
behind that operator."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from planner.graph.physical import PhysicalNode
from sqlengine.batch import Batch
from sqlengine.executors.failures import OperatorFailed
from sqlengine.operators.base import ERROR_PORT, Operator, Output, Stream, outputs
from sqlengine.operators.dead_letters import dead_letters

# A batch for an input port.
PortBatch: TypeAlias = tuple[int, Batch]

log = logging.getLogger("sqlengine")


def run_contained(
    node: PhysicalNode, operator: Operator, stateful: bool, parts: Sequence[PortBatch]
) -> Iterator[Stream]:
    """What the operator makes of the batches that wait for it, by input port. OperatorFailed when
    it raised and rows cannot be told apart."""
    if not stateful:
        for port, batch in parts:
            yield _contained(node, operator, port, batch)
        return
    made = outputs(operator, parts)
    while True:
        try:
            stream = next(made, None)
        except Exception as error:
            raise OperatorFailed(node, error) from error
        if stream is None:
            return
        yield _named(node, stream)


def _named(node: PhysicalNode, stream: Stream) -> Stream:
    """What it raises on the way names the operator."""
    try:
        yield from stream
    except Exception as error:
        raise OperatorFailed(node, error) from error


def _contained(node: PhysicalNode, operator: Operator, port: int, batch: Batch) -> Output:
    try:
        return list(operator.process(port, batch))
    except Exception as error:
        if not batch.num_rows:
            raise OperatorFailed(node, error) from error
        if batch.num_rows == 1:
            log.exception(
                "%s raised for one row, which becomes a dead letter", describe_operator(node)
            )
            return [(ERROR_PORT, _letter(node, batch, error))]
        half = batch.num_rows // 2
        parts = (batch.slice(0, half), batch.slice(half, batch.num_rows - half))
        return [out for part in parts for out in _contained(node, operator, port, part)]


def _letter(node: PhysicalNode, row: Batch, error: Exception) -> Batch:
    """Owned by the job, or by the stream ('') where many share the operator."""
    owner = next(iter(node.jobs)) if len(node.jobs) == 1 else ""
    reason = f"internal error: {type(error).__name__}: {error}"
    return dead_letters(
        row, owner=owner, place=row.origin, subject=describe_operator(node), reason=reason
    )


def describe_operator(node: PhysicalNode) -> str:
    """The operator in words."""
    return f"operator {type(node.plan).__name__} ({node.id[:12]})"
