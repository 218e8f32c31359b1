"""The dead letters of an engine: which there are, whose they are, and which have been replayed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from sqlengine.broker.base import Broker
from sqlengine.executors.letters import DEAD_LETTERS

_MARK = b'{"replayed":'
# Records read from the broker at a time.
_READ = 5_000


@dataclass(frozen=True)
class Letter:
    """One dead letter. `id` is its offset in the topic; `job` is '' for a record that is malformed for all jobs of
    `table`. `place`: line:column in the text of the job's version, or shard@offset; `subject`: the expression, or the
    table. `shard` and `offset` name the record in `stored` (a topic or path) that the row came from; None where only the
    values are known."""

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
class Wanted:
    """Which letters: of a job (its own, and those of its `tables`), of a table, from a time on (ms), of some ids."""

    job: str | None = None
    tables: Collection[str] = ()
    table: str | None = None
    since_ms: int = 0
    ids: Collection[int] | None = None

    def takes(self, letter: Letter) -> bool:
        return (
            letter.time >= self.since_ms
            and (self.ids is None or letter.id in self.ids)
            and (self.table is None or self.table in (letter.table, letter.table.rsplit(".", 1)[-1]))
            and (self.job is None or letter.job == self.job or (not letter.job and letter.table in self.tables))
        )


class Letters:
    """What stands in the topic. May be called from any thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lock = threading.Lock()
        self._replayed: dict[int, set[str]] = {}
        self._looked = 0

    def read(self, wanted: Wanted, after: int = -1) -> Iterator[Letter]:
        """Letters behind number `after`, oldest first."""
        for offset, value in self._records(after + 1):
            if not value.startswith(_MARK):
                letter = msgspec.convert({**msgspec.json.decode(value), "id": offset}, Letter)
                if wanted.takes(letter):
                    yield letter

    def replayed(self, letter: int) -> set[str]:
        """The jobs that have got the letter's record again."""
        with self._lock:
            for offset, value in self._records(self._looked):
                if value.startswith(_MARK):
                    mark = msgspec.json.decode(value)
                    for number in mark["replayed"]:
                        self._replayed.setdefault(number, set()).add(mark["job"])
                self._looked = offset + 1
            return set(self._replayed.get(letter, ()))

    def _records(self, offset: int) -> Iterator[tuple[int, bytes]]:
        if not any(t.name == DEAD_LETTERS for t in self._broker.topics()):
            return
        offset = max(offset, self._broker.begin_offset(DEAD_LETTERS, 0))
        while (records := self._broker.read(DEAD_LETTERS, 0, offset, max_records=_READ)) is not None:
            yield from zip(records.offsets.tolist(), records.values.to_pylist(), strict=True)
            offset = records.next_offset
