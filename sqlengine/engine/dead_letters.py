"""The dead letters of an engine: which there are, whose they are, and which have been replayed.

A record's key says whose letter it is. An index in memory says which blocks of the topic hold
letters of whom, so that a page costs the blocks with its letters, however many the topic holds of
others. It grows with what was appended since the last look."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sqlengine.broker.base import Broker, Records
from sqlengine.broker.errors import OffsetOutOfRange, TopicNotFound
from sqlengine.executors.dead_letters import DEAD_LETTERS, Owner, decode_owner

_MARK = b'{"replayed":'
# Offsets of one block.
_BLOCK = 1_000


@dataclass(frozen=True)
class DeadLetter:
    """One dead letter. `id` is its offset in the topic; `job` is '' for a record that is malformed
    for all jobs of `table`. `place`: line:column in the text of the job's version, or shard@offset;
    `subject`: the expression, or the table. `shard` and `offset` name the record in `stored` (a
    topic or path) that the row came from; None where only the values are known."""

    id: int
    time: int
    job: str
    place: str
    subject: str
    reason: str
    payload: str
    version: int = 0
    graph: str = ""
    epoch: int = 0
    table: str = ""
    stored: str = ""
    source: str = ""
    shard: str | None = None
    offset: int | None = None


@dataclass(frozen=True)
class DeadLetterFilter:
    """Which letters: of a job (its own, and those of its `tables`), of a table, from a time on
    (ms), of some ids."""

    job: str | None = None
    tables: Collection[str] = ()
    table: str | None = None
    since_ms: int = 0
    ids: Collection[int] | None = None

    def takes(self, letter: DeadLetter) -> bool:
        """Whether it is one of them, where `takes_of` says so of its owner."""
        return letter.time >= self.since_ms and (self.ids is None or letter.id in self.ids)

    def takes_of(self, owner: Owner) -> bool:
        """Whether letters of this job and table may be among them."""
        job, table = owner
        return (self.table is None or self.table in (table, table.rsplit(".", 1)[-1])) and (
            self.job is None or job == self.job or (not job and table in self.tables)
        )


@dataclass(frozen=True)
class _Where:
    """`blocks`, ascending, hold letters with one of `keys`; those from `end` on came after the
    look."""

    blocks: list[int]
    keys: pa.BinaryArray
    end: int


class DeadLetterQueue:
    """What stands in the topic. May be called from any thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = threading.Lock()
        self._replayed: dict[int, set[str]] = {}
        self._blocks: dict[bytes, array[int]] = {}
        self._looked = self._begin_then = 0

    def read(self, wanted: DeadLetterFilter, after: int = -1) -> Iterator[DeadLetter]:
        """Letters behind number `after`, oldest first."""
        where = self._find(wanted, after)
        for block in where.blocks:
            yield from self._letters(block, where, wanted, after)

    def last(self, wanted: DeadLetterFilter, count: int) -> list[DeadLetter]:
        """The last `count` letters, oldest first."""
        found: list[DeadLetter] = []
        where = self._find(wanted, -1)
        for block in reversed(where.blocks):
            found = [*self._letters(block, where, wanted, -1), *found]
            if len(found) >= count:
                break
        return found[-count:]

    def replayed(self, letter: int) -> set[str]:
        """The jobs that have got the letter's record again."""
        self.look()
        with self._lock:
            return set(self._replayed.get(letter, ()))

    def look(self) -> None:
        """Takes what was appended since the last look into the index. What the topic has dropped
        leaves it."""
        with self._lock:
            begin = self._begin()
            if begin is None or (begin, self._broker.end_offset(DEAD_LETTERS, 0)) == (
                self._begin_then,
                self._looked,
            ):
                return
            for records in self._records(self._looked, None):
                self._take(records)
                self._looked = records.next_offset
            for letter in [n for n in self._replayed if n < begin]:
                del self._replayed[letter]
            for key, blocks in list(self._blocks.items()):
                del blocks[: bisect_left(blocks, begin // _BLOCK)]
                if not blocks:
                    del self._blocks[key]
            self._begin_then = begin

    def _take(self, records: Records) -> None:
        block = records.first_offset // _BLOCK
        for key in _keys(records).drop_null().unique().to_pylist():
            held = self._blocks.setdefault(key, array("q"))
            if not held or held[-1] < block:
                held.append(block)
        for value in records.values.filter(
            pc.starts_with(records.values, pattern=_MARK)
        ).to_pylist():
            mark = msgspec.json.decode(value)
            for number in mark["replayed"]:
                self._replayed.setdefault(number, set()).add(mark["job"])

    def _find(self, wanted: DeadLetterFilter, after: int) -> _Where:
        """Where letters behind number `after` may be."""
        self.look()
        first = max(after + 1, self._since(wanted)) // _BLOCK
        with self._lock:
            keys = [key for key in self._blocks if wanted.takes_of(decode_owner(key))]
            held = (self._blocks[key] for key in keys)
            end = self._looked
            found = {block for blocks in held for block in blocks[bisect_left(blocks, first) :]}
        if wanted.ids is not None:
            found &= {number // _BLOCK for number in wanted.ids}
        return _Where(sorted(found), pa.array(keys, pa.binary()), end)

    def _since(self, wanted: DeadLetterFilter) -> int:
        if not wanted.since_ms or self._begin() is None:
            return 0
        return self._broker.offset_for_time(DEAD_LETTERS, 0, wanted.since_ms)

    def _letters(
        self, block: int, where: _Where, wanted: DeadLetterFilter, after: int
    ) -> Iterator[DeadLetter]:
        start = max(block * _BLOCK, after + 1)
        for records in self._records(start, min((block + 1) * _BLOCK, where.end)):
            mine = pc.is_in(_keys(records), where.keys)
            values = records.values.filter(mine).to_pylist()
            for offset, value in zip(
                pa.array(records.offsets).filter(mine).to_pylist(), values, strict=True
            ):
                letter = msgspec.convert({**msgspec.json.decode(value), "id": offset}, DeadLetter)
                if wanted.takes(letter):
                    yield letter

    def _begin(self) -> int | None:
        """The first offset that the topic still has; None as long as there is no topic."""
        try:
            return self._broker.begin_offset(DEAD_LETTERS, 0)
        except TopicNotFound:
            return None

    def _records(self, offset: int, until: int | None) -> Iterator[Records]:
        """Records of [offset, until), or up to the end, block by block, without those that the
        topic drops meanwhile."""
        while (begin := self._begin()) is not None:
            offset = max(offset, begin)
            if until is not None and offset >= until:
                return
            try:
                size = _BLOCK - offset % _BLOCK if until is None else until - offset
                records = self._broker.read(DEAD_LETTERS, 0, offset, max_records=size)
            except OffsetOutOfRange:
                if offset >= (self._begin() or 0):  # behind the end
                    return
                continue
            if records is None:
                return
            yield records
            offset = records.next_offset


def _keys(records: Records) -> pa.BinaryArray:
    """Whose the letters are; NULL for marks."""
    return pa.nulls(records.num_rows, pa.binary()) if records.keys is None else records.keys
