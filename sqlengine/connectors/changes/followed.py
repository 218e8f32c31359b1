"""Tables that are followed: of each change the records that its log gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec

from parser.errors import ServiceError
from planner.logical.change_kinds import RowKind
from sqlengine.connectors.changes.change import UNCHANGED, Change, Values
from sqlengine.connectors.changes.positions import COMPLETE, Mark
from sqlengine.connectors.receivers.base import Stream, Tail, Taken

_START: Final = "scan.startup."  # before the options that say where a log begins
# Returns values of a row by its key, as it is now; None where it is not there any more.
Lookup: TypeAlias = Callable[["Followed", Sequence[int], Values], Values | None]


@dataclass
class Followed:
    """One table, for one log. `upsert`: an update is told without the row before it; `startup`: the
    mode in which the log began, 'initial' with a snapshot, and `start`: what options say of the
    place where it did; `binary`: columns of bytes.

    `snapshot` and `last` (with `origin`, see `Mark`) are the place of the snapshot and of the last
    change in the log: what is not behind both is there already. `resumes`: where the log of the
    database is to be read from, in its own words, if the log ends within a transaction."""

    topic: str
    schema: str
    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    upsert: bool
    startup: str
    snapshot: int = 0
    last: tuple[int, int] = (0, 0)
    origin: int = 0
    resumes: bytes = b""
    binary: frozenset[str] = frozenset()
    start: Mapping[str, str] = field(default_factory=dict)
    _places: list[int | None] = field(default_factory=list)
    _commit: int = 0
    _number: int = 0

    @classmethod
    def of(cls, stream: Stream) -> Followed:
        """Returns the table of a stream, of which nothing is in the log."""
        what = stream.what
        return cls(
            stream.topic,
            what["schema"],
            what["table"],
            tuple(msgspec.json.decode(what["columns"], type=list[str])),
            tuple(msgspec.json.decode(what["key"], type=list[str])),
            what["changelog"] == "upsert",
            what["startup"],
            start={name: text for name, text in what.items() if name.startswith(_START)},
            binary=frozenset(msgspec.json.decode(what.get("binary", "[]"), type=list[str])),
        )

    @property
    def initial(self) -> bool:
        """True if the log begins with a snapshot."""
        return self.startup == "initial"

    @property
    def name(self) -> tuple[str, str]:
        return self.schema, self.table

    def find_end(self, tail: Tail) -> None:
        """Finds how far the log is; a snapshot that was not completed is none."""
        last = tail(self.topic, 1)
        mark = Mark.decoded(last.metadata[-1]) if last.metadata else None
        if mark is not None and not mark.is_in_snapshot:
            self.snapshot, self.last = mark.snapshot, (mark.lsn, mark.number)
            self.origin = mark.origin
            self.resumes = last.values[-1] if mark.kind == COMPLETE else b""

    def begins(self, lsn: int) -> None:
        """Notes that the changes that follow are of the commit at `lsn`, from its first one on."""
        self._commit, self._number = lsn, 0

    def is_now(self, columns: Sequence[str]) -> list[str]:
        """Takes the columns that the table has from here on; returns those that it lacks."""
        places = {name: i for i, name in enumerate(columns)}
        self._places = [places.get(name) for name in self.columns]
        return [name for name in self.columns if name not in places]

    def take(self, change: Change, time_ms: int, into: Taken, lookup: Lookup) -> None:
        """Adds the records of a change, but for those that the log has."""
        lsn = self._commit
        for kind, values in self._changes(change, lookup):
            self._number += 1
            if lsn >= self.snapshot and (lsn, self._number) > self.last:
                into.values.append(line(values))
                mark = Mark(kind, self.snapshot, lsn, self._number, time_ms, self.origin)
                into.metadata.append(mark.encoded())

    def breaks_off(self, taken: Taken, resumes: bytes) -> None:
        """Adds a record without a row to changes that end within their transaction: with where to
        go on, as one cannot go on within it."""
        mark = Mark.decoded(taken.metadata[-1]) if taken.metadata else None
        if mark is not None and mark.lsn == self._commit:
            taken.values.append(resumes)
            taken.metadata.append(mark._replace(kind=COMPLETE, time_ms=0).encoded())

    def _changes(self, change: Change, lookup: Lookup) -> list[tuple[RowKind, Values]]:
        old = None if change.old is None else self._ours(change.old)
        new = None if change.new is None else self._ours(change.new)
        if new is not None and UNCHANGED in new:
            new = self._completed(new, None if change.key_only else old, lookup)
        if new is None:
            assert old is not None
            self._require_whole(change)
            return [(RowKind.DELETE, old)]
        if not change.updates:
            return [(RowKind.INSERT, new)]
        if self.upsert:
            moved = old is not None and self._key_of(old) != self._key_of(new)
            gone = [(RowKind.DELETE, old)] if moved and old is not None else []
            return [*gone, (RowKind.UPDATE_AFTER, new)]
        self._require_whole(change)
        assert old is not None
        return [(RowKind.UPDATE_BEFORE, old), (RowKind.UPDATE_AFTER, new)]

    def _ours(self, values: Values) -> Values:
        return [None if i is None else values[i] for i in self._places]

    def _key_of(self, values: Values) -> Values:
        return [values[self.columns.index(k)] for k in self.key]

    def _completed(self, new: Values, old: Values | None, lookup: Lookup) -> Values:
        """Fills in long values that the update left as they were, and that were not told. Where
        they are not in the old row they are those of now: a change of them since comes, too."""
        lacking = [i for i, value in enumerate(new) if value == UNCHANGED]
        known = old
        if known is None:
            told = lookup(self, lacking, self._key_of(new))
            known = [None] * len(new)
            for i, value in zip(lacking, told or [None] * len(lacking), strict=True):
                known[i] = value
        return [known[i] if value == UNCHANGED else value for i, value in enumerate(new)]

    def _require_whole(self, change: Change) -> None:
        if not self.upsert and (change.old is None or change.key_only):
            raise ServiceError(
                f"table '{self.schema}.{self.table}' does not tell the rows before its changes:"
                f" ALTER TABLE … REPLICA IDENTITY FULL, or 'changelog-mode' = 'upsert'"
            )


def line(values: Values) -> bytes:
    """Returns a row as CSV, in which NULL alone is without quotes."""
    return b",".join([b"" if v is None else b'"' + v.replace(b'"', b'""') + b'"' for v in values])
