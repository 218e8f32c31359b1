"""The dead letter queue of an engine: its letters, their owners, and which have been replayed.

The key of a record names the owner of the letter: a job, or a table. An index in memory maps owners
to the blocks of the topic with their letters, so that a page costs the blocks that it shows,
however many letters others have. Reads extend it by the records appended since.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
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
    """A dead letter. `id` is its offset in the topic; `job` is '' for a record that is malformed
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
    """Selects letters: of a job (and of its `tables`), of a table, since a time (ms), by ids, and
    of those whose owners may be `seen` (None: all). `readable` tells of a topic, or path, whether
    its malformed records may be seen: a table may have been over another when they came."""

    job: str | None = None
    tables: Collection[str] = ()
    table: str | None = None
    since_ms: int = 0
    ids: Collection[int] | None = None
    seen: Callable[[Owner], bool] | None = None
    readable: Callable[[str], bool] = lambda _: True

    def matches(self, letter: DeadLetter) -> bool:
        """True if a letter whose owner passes `may_match` is selected."""
        if not letter.job and not self.readable(letter.stored):
            return False
        return letter.time >= self.since_ms and (self.ids is None or letter.id in self.ids)

    def may_match(self, owner: Owner) -> bool:
        """True if letters of this owner may be selected."""
        job, table = owner
        return (self.table is None or self.table in (table, table.rsplit(".", 1)[-1])) and (
            (self.job is None or job == self.job or (not job and table in self.tables))
            and (self.seen is None or self.seen(owner))
        )


@dataclass(frozen=True)
class _IndexMatch:
    """The blocks (ascending) that have letters with one of `keys`, of the topic before `end`."""

    blocks: list[int]
    keys: pa.BinaryArray
    end: int


class DeadLetterQueue:
    """Reads the topic of dead letters. May be called from any thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = threading.Lock()
        self._replayed: dict[int, set[str]] = {}
        self._blocks: dict[bytes, array[int]] = {}
        self._indexed = self._begin_then = 0

    def read(self, criteria: DeadLetterFilter, after: int = -1) -> Iterator[DeadLetter]:
        """Yields letters behind number `after`, oldest first."""
        match = self._find(criteria, after)
        for block in match.blocks:
            yield from self._letters(block, match, criteria, after)

    def last(self, criteria: DeadLetterFilter, count: int) -> list[DeadLetter]:
        """Returns the last `count` letters, oldest first."""
        letters: list[DeadLetter] = []
        match = self._find(criteria, -1)
        for block in reversed(match.blocks):
            # Backwards, block by block, until there are enough: the cost does not depend on the
            # queue's length.
            letters = [*self._letters(block, match, criteria, -1), *letters]
            if len(letters) >= count:
                break
        return letters[-count:]

    def replayed(self, letter: int) -> set[str]:
        """Returns the jobs for which the letter's record was replayed."""
        self.refresh()
        with self._lock:
            return set(self._replayed.get(letter, ()))

    def refresh(self) -> None:
        """Adds the records appended since the last call to the index, and drops those that the
        topic has dropped."""
        with self._lock:
            begin = self._begin()
            if begin is None or (begin, self._broker.end_offset(DEAD_LETTERS, 0)) == (
                self._begin_then,
                self._indexed,
            ):
                return
            for records in self._records(self._indexed, None):
                self._index(records)
                self._indexed = records.next_offset
            for letter in [n for n in self._replayed if n < begin]:
                del self._replayed[letter]
            for key, blocks in list(self._blocks.items()):
                # The block in which the topic begins now stays: letters in the rest of it are still
                # there.
                del blocks[: bisect_left(blocks, begin // _BLOCK)]
                if not blocks:
                    del self._blocks[key]
            self._begin_then = begin

    def _index(self, records: Records) -> None:
        block = records.first_offset // _BLOCK
        for key in _keys(records).drop_null().unique().to_pylist():
            blocks = self._blocks.setdefault(key, array("q"))
            # Records come in order: a block is listed once for each owner.
            if not blocks or blocks[-1] < block:
                blocks.append(block)
        for value in records.values.filter(
            pc.starts_with(records.values, pattern=_MARK)
        ).to_pylist():
            mark = msgspec.json.decode(value)
            for number in mark["replayed"]:
                self._replayed.setdefault(number, set()).add(mark["job"])

    def _find(self, criteria: DeadLetterFilter, after: int) -> _IndexMatch:
        """Returns the blocks in which letters behind number `after` may be."""
        self.refresh()
        first = max(after + 1, self._since(criteria)) // _BLOCK
        with self._lock:
            keys = [key for key in self._blocks if criteria.may_match(decode_owner(key))]
            end = self._indexed
            matches = {
                block
                for blocks in map(self._blocks.__getitem__, keys)
                for block in blocks[bisect_left(blocks, first) :]
            }
        if criteria.ids is not None:
            matches &= {number // _BLOCK for number in criteria.ids}
        return _IndexMatch(sorted(matches), pa.array(keys, pa.binary()), end)

    def _since(self, criteria: DeadLetterFilter) -> int:
        if not criteria.since_ms or self._begin() is None:
            return 0
        return self._broker.offset_for_time(DEAD_LETTERS, 0, criteria.since_ms)

    def _letters(
        self, block: int, match: _IndexMatch, criteria: DeadLetterFilter, after: int
    ) -> Iterator[DeadLetter]:
        start = max(block * _BLOCK, after + 1)
        for records in self._records(start, min((block + 1) * _BLOCK, match.end)):
            mine = pc.is_in(_keys(records), match.keys)
            values = records.values.filter(mine).to_pylist()
            for offset, value in zip(
                pa.array(records.offsets).filter(mine).to_pylist(), values, strict=True
            ):
                letter = msgspec.convert({**msgspec.json.decode(value), "id": offset}, DeadLetter)
                if criteria.matches(letter):
                    yield letter

    def _begin(self) -> int | None:
        """Returns the first offset of the topic; None as long as there is no topic."""
        try:
            return self._broker.begin_offset(DEAD_LETTERS, 0)
        except TopicNotFound:
            return None

    def _records(self, offset: int, until: int | None) -> Iterator[Records]:
        """Yields the records of [offset, until), or up to the end, block by block, without those
        that the topic drops meanwhile."""
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
    """Returns the keys of records: the owners of letters, NULL for marks of replays."""
    return pa.nulls(records.num_rows, pa.binary()) if records.keys is None else records.keys
