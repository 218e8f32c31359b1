"""A group of parts brought to a standstill, and what jobs have there."""

from __future__ import annotations

from planner.graph.distribution import INCOMING
from sqlengine.cluster.subtask import to_logical_names
from sqlengine.connectors.shuffle import shuffle_topic
from sqlengine.snapshots.job_snapshot import JobSnapshot
from sqlengine.snapshots.rescaling import merge_snapshots, subtask_snapshot
from tests.subtasks.group import Group


def hold(group: Group) -> None:
    """Until nothing is on its way any more."""
    for part in group.open.values():
        part.runner.pause({})
    while not all(
        part.runner.quiesced and _has_read_all(group, i) for i, part in group.open.items()
    ):
        for index in range(group.parts):
            group.step(index)


def _has_read_all(group: Group, index: int) -> bool:
    at = group.open[index].runner.inputs.running[INCOMING].positions[str(index)]
    return at == group.broker.end_offset(shuffle_topic(group.graph), index)


def has(group: Group, job: str) -> JobSnapshot:
    """What the job has in all parts, as if it were not divided."""
    pieces = [subtask_snapshot(group.open[i].runner, job) for i in range(group.parts)]
    runner = group.open[0].runner
    return to_logical_names(
        merge_snapshots(pieces, runner.graph), group.plans[job, runner.jobs[job]], group.parts
    )
