"""Counts of jobs in graphs that are gone, in a compacted topic: a job that has caught up, was
merged, stopped or started again goes on counting where it was."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import msgspec

from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError
from sqlengine.executors.job_counts import NOTHING, JobCounts, add_counts, raise_counts
from sqlengine.system.format_numbers import check_record

JOB_COUNTS = "_job_counts"
FORMAT = 1
log = logging.getLogger("sqlengine")


class _Record(msgspec.Struct, frozen=True):
    """The counts of one job. `total`: in graphs that were removed; `graphs`: in those that were
    closed, and are perhaps not removed yet, because a crash came in between."""

    total: JobCounts = NOTHING
    graphs: dict[str, JobCounts] = {}
    format: int = FORMAT


class RetiredCounts:
    """Keeps the counts of graphs that are closed for good. A name of a graph is never used again,
    so that none counts twice.

    Written by the thread that makes changes, read by any."""

    def __init__(self, broker: Broker) -> None:
        broker.create_topic(JOB_COUNTS, compacted=True, if_not_exists=True)
        self._broker = broker
        self._records: dict[str, _Record] = {}
        for key, value in broker.read_latest(JOB_COUNTS).items():
            check_record(value, FORMAT, f"record '{key.decode()}' of the counts of jobs")
            self._records[key.decode()] = msgspec.json.decode(value, type=_Record)

    def keep(
        self, graph: str, counts: Mapping[str, JobCounts], existing: Collection[str], now_ms: int
    ) -> None:
        """Logs what a graph has counted, before it is removed. `existing`: the names of graphs that
        are not removed yet."""
        changed = {
            job: self._with(job, graph, own, {*existing, graph})
            for job, own in counts.items()
            if own.rows or own.late_rows or own.dead_letters or own.held_back
        }
        self._records |= changed
        if not changed:
            return
        try:
            self._broker.append(
                JOB_COUNTS,
                0,
                [msgspec.json.encode(record) for record in changed.values()],
                keys=[job.encode() for job in changed],
                timestamp_ms=now_ms,
            )
        except BrokerError as error:
            # Counts are not worth a refused change; they are right until the next start.
            log.warning("the counts of graph %s are not stored: %s", graph, error)

    def _with(self, job: str, graph: str, counts: JobCounts, existing: Collection[str]) -> _Record:
        record = self._records.get(job, _Record())
        counts = counts.at_least(record.graphs.get(graph, NOTHING))
        total = record.total
        for name, own in record.graphs.items():
            if name not in existing:
                total = total.plus(own)
        kept = {n: c for n, c in record.graphs.items() if n in existing}
        return _Record(total, {**kept, graph: counts})

    def raised(self, graph: str, counts: Mapping[str, JobCounts]) -> dict[str, JobCounts]:
        """Returns the counts of an open graph, none below what was kept for it: a graph that was
        opened again without a failed job does not know that job's last rows."""
        records = dict(self._records)
        kept = {job: r.graphs[graph] for job, r in records.items() if graph in r.graphs}
        return raise_counts(counts, kept)

    def outside(self, graphs: Collection[str]) -> dict[str, JobCounts]:
        """Returns the counts by job of all graphs but these."""
        return add_counts(
            {job: own}
            for job, record in dict(self._records).items()
            for own in (
                record.total,
                *(c for name, c in record.graphs.items() if name not in graphs),
            )
        )
