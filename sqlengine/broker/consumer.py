"""Reads topics as a member of a consumer group: each shard is read by one member, with failover to
others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from sqlengine.broker.base import Broker, Records
from sqlengine.broker.errors import Fenced, NameTaken, OffsetOutOfRange
from sqlengine.broker.ownership import SESSION_MS, Membership

Start = Literal["earliest", "latest"]


def _up_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Consumer:
    """A consumer, for use by one thread. Delivers every record at least once.

    Records that were not committed are delivered again, to the shard's owner at that time. `start`:
    the offset of shards without a commit of the group. `member` is a name that no other process of
    the group has. `clock` is monotonic (ms).

    It must poll more often than every `session_ms`, or its shards are reassigned. If another
    process joins under its name, `poll` and `commit` raise NameTaken from then on: two processes
    that joined again in turn would both get nothing done.
    """

    def __init__(
        self,
        broker: Broker,
        group: str,
        member: str,
        topic: str,
        *,
        start: Start = "latest",
        session_ms: int = SESSION_MS,
        clock: Callable[[], int] = _up_ms,
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._start: Start = start
        self._session_ms = session_ms
        self._clock = clock
        self._positions: dict[int, int] = {}
        self._delivered: set[int] = set()  # the shards of records delivered since the last commit
        self._turn = 0
        self._membership = Membership(group, member, 0, {})
        self._join()

    @property
    def membership(self) -> Membership:
        """Its assignment, as of the last heartbeat."""
        return self._membership

    def poll(self, timeout_s: float = 1.0, *, max_records: int = 10_000) -> Records | None:
        """Returns the next records of one of its shards, in turn; None if there were none within
        `timeout_s`."""
        self._send_heartbeat()
        records = self._read(max_records)
        if records is None and timeout_s > 0:
            self._broker.wait_for_data(timeout_s)
            self._send_heartbeat()
            records = self._read(max_records)
        return records

    def commit(self) -> None:
        """Commits all records that `poll` has returned since the last commit.

        Raises Fenced if a shard of these records belongs to another member by now, or did
        meanwhile: then none is committed, all are delivered again, and results derived from them
        must not be used.
        """
        if not self._delivered:
            return
        known = self._membership
        try:
            if not self._delivered <= self._positions.keys():
                raise Fenced(
                    f"shards of topic {self._topic!r} went to other members of group"
                    f" {known.group!r}"
                )
            offsets = {shard: self._positions[shard] for shard in self._delivered}
            self._broker.commit(
                known.group, self._topic, offsets, fence=known.fence(self._topic, *offsets)
            )
        except NameTaken:
            raise
        except Fenced:
            self._join()  # the shards are then read from their committed offsets
            raise
        self._delivered = set()

    def close(self) -> None:
        """Leaves the group; its shards are reassigned at once."""
        self._broker.leave(self._membership.group, self._membership.member)
        self._positions, self._delivered = {}, set()

    def _join(self) -> None:
        known = self._membership
        self._positions, self._delivered = {}, set()
        self._take(
            self._broker.join(known.group, known.member, [self._topic], session_ms=self._session_ms)
        )

    def _send_heartbeat(self) -> None:
        """Renews the session when due, and takes over or gives up shards."""
        if self._clock() - self._last_heartbeat < self._session_ms // 3:
            return
        known = self._membership
        try:
            self._take(self._broker.heartbeat(known.group, known.member, known.generation))
        except NameTaken:
            self._positions = {}
            raise
        except Fenced:
            delivered = self._delivered
            self._join()
            self._delivered = delivered | self._delivered
            self._positions = {s: at for s, at in self._positions.items() if s not in delivered}

    def _take(self, membership: Membership) -> None:
        """Adopts an assignment: keeps the positions of kept shards, and starts new ones at the
        committed offsets.

        Records delivered from a lost shard cannot be committed: such a shard has no position until
        `commit` has raised.
        """
        before, self._membership, self._last_heartbeat = (
            self._membership.generation,
            membership,
            self._clock(),
        )
        owned = dict(
            zip(
                membership.shards.get(self._topic, ()),
                membership.since.get(self._topic, ()),
                strict=True,
            )
        )
        # A shard that was lost and assigned again meanwhile has a newer generation: its position is
        # void.
        kept = {
            shard: at
            for shard, at in self._positions.items()
            if owned.get(shard, before + 1) <= before
        }
        committed = self._broker.committed(membership.group, self._topic)
        new = owned.keys() - kept.keys() - self._delivered
        self._positions = kept | {
            s: committed[s] if s in committed else self._first(s) for s in sorted(new)
        }

    def _first(self, shard: int) -> int:
        if self._start == "earliest":
            return self._broker.begin_offset(self._topic, shard)
        return self._broker.end_offset(self._topic, shard)

    def _read(self, max_records: int) -> Records | None:
        shards = sorted(self._positions)
        for step in range(len(shards)):
            shard = shards[(self._turn + step) % len(shards)]
            try:
                records = self._broker.read(
                    self._topic, shard, self._positions[shard], max_records=max_records
                )
            except OffsetOutOfRange:  # retention has removed the records meanwhile
                self._positions[shard] = self._broker.begin_offset(self._topic, shard)
                records = self._broker.read(
                    self._topic, shard, self._positions[shard], max_records=max_records
                )
            if records is not None:
                self._turn += step + 1
                self._positions[shard] = records.next_offset
                self._delivered.add(shard)
                if records.num_rows:
                    return records
        return None
