"""Conditions on partition columns say which partitions are read."""

from __future__ import annotations

from dataclasses import replace

from planner.analysis.totality import can_fail
from planner.catalog import PARTITION
from planner.logical import Filter, LogicalPlan, Scan
from planner.rewrite import conjunction, conjuncts, transform
from planner.scalar import Scalar, columns_of, is_deterministic


def prune_partitions(plan: LogicalPlan) -> LogicalPlan:
    """Moves conditions on partition columns alone into the scan (Flink:
    PushPartitionIntoTableSourceScanRule).

    >>> from planner.examples import show
    >>> show("prune_partitions", "SELECT id FROM files WHERE dt = '2024-05-01' AND id > 3")
    Filter ((dt = '2024-05-01') AND (id > 3))
      Scan files (filesystem)
    -->
    Filter (id > 3)
      Scan files (filesystem), partitions where (dt = '2024-05-01')

    Not below a watermark: partitions that are not read would not move it. A scan with other
    partitions is another scan, which reads less than the one that all jobs share.
    """
    return transform(plan, _prune)


def _prune(node: LogicalPlan) -> LogicalPlan:
    if not isinstance(node, Filter) or not isinstance(node.input, Scan):
        return node
    scan = node.input
    keys = {m.column.name for m in scan.table.metadata if m.key.startswith(PARTITION)}
    parts = conjuncts(node.predicate)
    pushed = [p for p in parts if _selects_partitions(p, keys)]
    if not pushed:
        return node
    present = () if scan.where is None else (scan.where,)
    narrowed = replace(scan, where=conjunction((*present, *pushed)))
    # By identity, for equal conditions may occur twice.
    rest = [p for p in parts if not any(p is c for c in pushed)]
    return Filter(narrowed, conjunction(rest), node.salt) if rest else narrowed


def _selects_partitions(part: Scalar, keys: set[str]) -> bool:
    """True if the condition has one value for all rows of a partition, and never fails."""
    columns = columns_of(part)
    return bool(columns) and columns <= keys and is_deterministic(part) and not can_fail(part)
