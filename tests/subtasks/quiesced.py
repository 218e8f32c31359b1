"""A group of subtasks brought to a standstill, and what jobs have there."""

from __future__ import annotations

from planner.graph.distribution import INCOMING
from sqlengine.cluster.subtask import to_logical_names
from sqlengine.connectors.shuffle import shuffle_topic
from sqlengine.snapshots.job_snapshot import JobSnapshot
from sqlengine.snapshots.rescaling import merge_snapshots, subtask_snapshot
from tests.subtasks.group import Group


def quiesce(group: Group) -> None:
    """Until nothing is on its way any more."""
    for subtask in group.open.values():
        subtask.runner.pause({})
    while not all(
        subtask.runner.quiesced and _has_read_all(group, i) for i, subtask in group.open.items()
    ):
        for index in range(group.parallelism):
            group.step(index)


def _has_read_all(group: Group, index: int) -> bool:
    at = group.open[index].runner.inputs.running[INCOMING].positions[str(index)]
    return at == group.broker.end_offset(shuffle_topic(group.graph), index)


def merged_snapshot(group: Group, job: str) -> JobSnapshot:
    """What the job has in all subtasks, as if it were not distributed."""
    snapshots = [subtask_snapshot(group.open[i].runner, job) for i in range(group.parallelism)]
    runner = group.open[0].runner
    return to_logical_names(
        merge_snapshots(snapshots, runner.graph),
        group.plans[job, runner.jobs[job]],
        group.parallelism,
    )
