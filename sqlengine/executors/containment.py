"""Contains operators that raise, which is a bug of the engine: few rows and jobs are lost.

Without state, the rows at fault are found by bisection and become dead letters. With state, memory
is inconsistent afterwards: the graph is restored from its last checkpoint without the jobs behind
that operator.

A service that does not answer is no fault of a row: the jobs behind the operator fail, and are
started again by their policy where they were."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from planner.graph.physical import PhysicalNode
from sqlengine.batch import Batch
from sqlengine.executors.failures import OperatorFailed
from sqlengine.expressions import part_of
from sqlengine.formats.base import OutOfReach
from sqlengine.operators.base import ERROR_PORT, Operator, Output, Stream, outputs
from sqlengine.operators.bounded import SLICE_ROWS
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.system.interrupts import uninterrupted
from udf.vector import ColumnTooLarge

# An input port, and a batch for it.
PortBatch: TypeAlias = tuple[int, Batch]

log = logging.getLogger("sqlengine")


def run_contained(
    node: PhysicalNode, operator: Operator, stateful: bool, parts: Sequence[PortBatch]
) -> Iterator[Stream]:
    """Runs an operator over its waiting input and yields its output as streams of (port, batch).

    OperatorFailed if it raises and has state, raises for a batch without rows, or needs a service
    that does not answer."""
    if not stateful:
        for port, batch in parts:
            yield _stateless(node, operator, port, batch)
        return
    streams = outputs(operator, parts)
    while True:
        try:
            # Only the operator's own code is guarded here and in `_attributed`: an error of the
            # nodes behind it must not be charged to it.
            stream = next(streams, None)
        except Exception as error:
            raise OperatorFailed(node, error) from error
        if stream is None:
            return
        yield _attributed(node, stream)


def _attributed(node: PhysicalNode, stream: Stream) -> Stream:
    """Passes a stream on; an error in it becomes OperatorFailed with the operator's name."""
    try:
        yield from stream
    except Exception as error:
        raise OperatorFailed(node, error) from error


def _stateless(node: PhysicalNode, operator: Operator, port: int, batch: Batch) -> Stream:
    """Yields the output for a batch: in parts, where its columns would be too large at once. Rows
    at fault are looked for as long as nothing was passed on:
    until it is too much to hold."""
    output: Output = []
    rows = 0
    try:
        rest = iter(operator.process(port, batch))
        for out in rest:
            output.append(out)
            rows += out[1].num_rows
            if rows > SLICE_ROWS:
                break
    except ColumnTooLarge:
        half = batch.num_rows // 2
        for start, length in ((0, half), (half, batch.num_rows - half)):
            yield from _stateless(node, operator, port, part_of(batch, start, length))
        return
    except OutOfReach as error:
        raise OperatorFailed(node, error) from error
    except Exception:  # noqa: BLE001  the rows at fault raise again, and become dead letters
        yield from _bisect(node, operator, port, batch)
        return
    yield from output
    yield from _attributed(node, rest)


def _bisect(node: PhysicalNode, operator: Operator, port: int, batch: Batch) -> Output:
    """Processes a batch. If the operator raises, processes its halves, down to single rows: each
    row that raises alone is a dead letter. That is sound because the operator has no state."""
    try:
        return list(operator.process(port, batch))
    except Exception as error:
        if not batch.num_rows or isinstance(error, OutOfReach):
            raise OperatorFailed(node, error) from error
        if batch.num_rows == 1:
            with uninterrupted():  # logging has locks that all threads wait for
                log.exception("%s raised for one row: a dead letter", describe_operator(node))
            return [(ERROR_PORT, _letter(node, batch, error))]
        half = batch.num_rows // 2
        parts = (batch.slice(0, half), batch.slice(half, batch.num_rows - half))
        return [out for part in parts for out in _bisect(node, operator, port, part)]


def _letter(node: PhysicalNode, row: Batch, error: Exception) -> Batch:
    """The dead letter of a row."""
    reason = f"internal error: {type(error).__name__}: {error}"
    return dead_letters(row, place=row.origin, subject=describe_operator(node), reason=reason)


def describe_operator(node: PhysicalNode) -> str:
    """The operator's name for messages."""
    return f"operator {type(node.plan).__name__} ({node.id[:12]})"
