"""Reading topics as a member of a group: each shard is read by one member, and goes to another when
that one falls away."""

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
    """For one thread. Every record is given at least once: what was not committed is given again,
    to whoever owns its shard then. `start`: where a shard begins for which the group has committed
    nothing. `member` is a name that no other process of the group has. `clock` gives ms that only
    grow.

    It must poll more often than every `session_ms`, or others take its shards. Where another
    process has joined under its name, `poll` and `commit` raise NameTaken from then on: two that
    joined anew by turns would both get nothing done."""

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
        self._given: set[int] = set()  # the shards of what was given since the last commit
        self._turn = 0
        self._membership = Membership(group, member, 0, {})
        self._join()

    @property
    def membership(self) -> Membership:
        """What it owns, as it last heard."""
        return self._membership

    def poll(self, timeout_s: float = 1.0, *, max_records: int = 10_000) -> Records | None:
        """The next records of one of its shards, each in turn; None when there were none within
        `timeout_s`."""
        self._keep_up()
        found = self._read(max_records)
        if found is None and timeout_s > 0:
            self._broker.wait_for_data(timeout_s)
            self._keep_up()
            found = self._read(max_records)
        return found

    def commit(self) -> None:
        """All that `poll` gave since the last commit is done.

        Raises Fenced when a shard of it belongs to somebody else by now, or did meanwhile: then
        none of it is, all of it is given again, and what was made of it is not to be used."""
        if not self._given:
            return
        known = self._membership
        try:
            if not self._given <= self._positions.keys():
                raise Fenced(
                    f"shards of topic {self._topic!r} went to other members of group"
                    f" {known.group!r}"
                )
            offsets = {shard: self._positions[shard] for shard in self._given}
            self._broker.commit(
                known.group, self._topic, offsets, fence=known.fence(self._topic, *offsets)
            )
        except NameTaken:
            raise
        except Fenced:
            self._join()
            raise
        self._given = set()

    def close(self) -> None:
        """Gives its shards to the others, at once."""
        self._broker.leave(self._membership.group, self._membership.member)
        self._positions, self._given = {}, set()

    def _join(self) -> None:
        known = self._membership
        self._positions, self._given = {}, set()
        self._take(
            self._broker.join(known.group, known.member, [self._topic], session_ms=self._session_ms)
        )

    def _keep_up(self) -> None:
        """Tells that it lives, when it is time to, and takes or gives up shards."""
        if self._clock() - self._heard < self._session_ms // 3:
            return
        known = self._membership
        try:
            self._take(self._broker.heartbeat(known.group, known.member, known.generation))
        except NameTaken:
            self._positions = {}
            raise
        except Fenced:
            given = self._given
            self._join()
            self._given = given | self._given
            self._positions = {s: at for s, at in self._positions.items() if s not in given}

    def _take(self, membership: Membership) -> None:
        """Goes on with what it kept, and with the committed offsets of what is new. What was given
        of a shard that it has lost cannot be committed any more: such a shard has no position until
        `commit` has said so."""
        before, self._membership, self._heard = (
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
        kept = {
            shard: at
            for shard, at in self._positions.items()
            if owned.get(shard, before + 1) <= before
        }
        committed = self._broker.committed(membership.group, self._topic)
        new = owned.keys() - kept.keys() - self._given
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
            except OffsetOutOfRange:  # retention was faster
                self._positions[shard] = self._broker.begin_offset(self._topic, shard)
                records = self._broker.read(
                    self._topic, shard, self._positions[shard], max_records=max_records
                )
            if records is not None:
                self._turn += step + 1
                self._positions[shard] = records.next_offset
                self._given.add(shard)
                if records.num_rows:
                    return records
        return None
