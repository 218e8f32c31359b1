"""The input of Spark's tasks: an epoch of a graph, cut into splits.

A task (`stage.py`) reads a split, decodes it and runs all that is stateless over it. The rows of
most sources are read in the driver, as the embedded executor reads them, and travel to the tasks
undecoded: the folder of the embedded broker belongs to one process. Tasks read bounded files, and
make the rows of datagen, themselves (`RangeSource`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pyarrow as pa

from parser.errors import SqlError
from planner.graph.physical import PhysicalNode
from planner.logical import Scan
from planner.scalar import Scalar
from sqlengine.batch import Batch, log_of
from sqlengine.connectors.base import Source
from sqlengine.connectors.boundary.source import WalledSource
from sqlengine.connectors.chunks import Chunk, Part, Place
from sqlengine.connectors.filesystem.opened import ARCHIVES
from sqlengine.executors.failures import SourceFailed
from sqlengine.executors.wire import encode_batch

_DATABASE: Final = "jdbc"
_FILES: Final = "filesystem"
# The connectors whose bounded tables tasks read: the length of a split in offsets, and the bytes
# per offset, about.
READ_BY_TASKS: Final = {
    _FILES: (16 << 20, 1),
    "datagen": (1 << 16, 256),
    _DATABASE: (1 << 40, 256),  # a partition each
}
# Without it a table of a database is read at once.
_PARTITIONS: Final = "scan.partition.num"
# With it rows come one after the other, and the driver waits for them.
_PACE: Final = "rows-per-second"
# A split of rows that the driver reads has so many turns.
TURNS_PER_SPLIT: Final = 2
# An epoch has ranges of about so many bytes, which a keyed stage must hold in memory.
BYTES_PER_EPOCH: Final = 256 << 20

# `InputSplit.turn`: the phase of the epoch, the split of its chunk, the turn of the split's rows,
# and the place of the chunk among those of its phase, from the highest bits to the lowest.
_PLACES: Final = 1 << 16
TURN: Final = _PLACES
_SPLIT: Final = TURN << 20
_PHASE: Final = _SPLIT << 10
# Neither Arrow nor JSON begins so, nor what is handed over (`handed_over.py`).
_PLACE: Final = b"\0at "


@dataclass(frozen=True)
class InputSplit:
    """Rows of one shard: the task reads offsets [`start`, `end`), or decodes a `batch` of records,
    which may be in a file (`handed_over.py`).

    Splits are processed in the order of `turn`; rows `n * rows_per_turn` on have the turn `turn + n
    * TURN`. `log` names the shard's log over all sources of a graph. Several splits may have rows
    that were read at once; `row` is the first of them in `batch`. In the place of records there
    may be where they are (`place`)."""

    source: str
    shard: str
    log: str
    turn: int = 0
    start: int = 0
    end: int = 0
    batch: bytes | None = None
    row: int = 0

    @property
    def place(self) -> bytes | None:
        """The place of rows that were found, and not read (`reading/linked.py`)."""
        if self.batch is None or not self.batch.startswith(_PLACE):
            return None
        return self.batch.removeprefix(_PLACE)


SPLIT_SCHEMA: Final = pa.schema(
    [
        ("source", pa.string()),
        ("shard", pa.string()),
        ("log", pa.string()),
        ("turn", pa.int64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("batch", pa.binary()),
        ("row", pa.int64()),
    ]
)


def splits_to_table(splits: Iterable[InputSplit]) -> pa.Table:
    """Converts splits to a table, from which Spark makes a DataFrame."""
    listed = list(splits)
    columns = [pa.array([getattr(s, f.name) for s in listed], f.type) for f in SPLIT_SCHEMA]
    return pa.Table.from_arrays(columns, schema=SPLIT_SCHEMA)


@contextmanager
def failing(node: PhysicalNode) -> Iterator[None]:
    """Makes an SqlError of the body the failure of the jobs that read the source."""
    try:
        yield
    except SourceFailed:
        raise
    except SqlError as error:
        raise SourceFailed(node.jobs, error) from error


class EpochSplits:
    """The splits of one epoch, in the order in which the embedded executor would process them.

    Rows of one phase are read by turns, a turn of each shard after the other; whatever carries
    time, and rows behind others of their log, begin another phase."""

    def __init__(self, rows_per_turn: int) -> None:
        self.rows_per_split = rows_per_turn * TURNS_PER_SPLIT
        self.splits: list[InputSplit] = []
        self._phase = self._place = 0
        self._logs: set[str] = set()  # of the phase
        self._has_rows = False

    def add(self, source: str, batch: Batch, start: int = 0) -> None:
        """Adds rows that were read, or a tick: of many rows splits of some turns, for several
        tasks."""
        log = log_name(source, batch.origin)
        turn = self._turn(log, has_rows=batch.num_rows > 0)
        for row in range(0, max(batch.num_rows, 1), self.rows_per_split):
            part = _part(batch, row, self.rows_per_split)
            self.splits.append(
                InputSplit(source, batch.origin, log, turn, start, start, encode_batch(part), row)
            )

    def add_places(self, source: str, shard: str, start: int, places: Iterable[Place]) -> None:
        """Adds rows that were found, but not read: a split for each place, as for rows."""
        log = log_name(source, shard)
        turn = self._turn(log, has_rows=True)
        for place in places:
            data = _PLACE + place.at
            self.splits.append(InputSplit(source, shard, log, turn, start, start, data, place.row))

    def add_values(self, source: str) -> None:
        """Adds the rows of VALUES."""
        log = log_name(source, "")
        self.splits.append(InputSplit(source, "", log, self._turn(log, has_rows=False)))

    def add_ranges(self, source: str, shard: str, bounds: Iterable[int]) -> None:
        """Adds ranges of one shard, which meet at these offsets."""
        log = log_name(source, shard)
        turn, ends = self._turn(log, has_rows=True), list(bounds)
        for n, (start, end) in enumerate(pairwise(ends)):
            self.splits.append(InputSplit(source, shard, log, turn + n * _SPLIT, start, end))

    def _turn(self, log: str, *, has_rows: bool) -> int:
        if has_rows != self._has_rows or log in self._logs or self._place == _PLACES:
            self._phase, self._place = self._phase + 1, 0
            self._logs.clear()
        self._has_rows = has_rows
        self._logs.add(log)
        self._place += 1
        return self._phase * _PHASE + self._place - 1


def _part(batch: Batch, row: int, most: int) -> Batch:
    """Returns at most so many rows of a batch, from one on; a tick as it is."""
    if batch.num_rows <= most:
        return batch
    return batch.slice(row, min(most, batch.num_rows - row))


def log_name(source: str, shard: str) -> str:
    """Returns the name of a shard's log: it lasts, and no other source of the graph has it."""
    return f"{source}/{log_of(shard)}"


def read_by_tasks(scan: Scan, source: Source) -> bool:
    """True if tasks can read a table themselves: all of its rows are there now."""
    options, connector = scan.table.options, scan.table.connector
    if connector == _DATABASE and _PARTITIONS not in options:
        return False
    readable = connector in READ_BY_TASKS and _PACE not in options
    if readable and connector == _FILES and any(s.endswith(ARCHIVES) for s in source.shards()):
        return False  # no task could begin within a compressed file
    return readable and source.bounded and source.full_cache is None


class RangeSource(Source):
    """A bounded source of which the graph knows ranges alone: its chunks have no rows, which tasks
    read. `budget`: the bytes that an epoch may read, shared by all sources of a graph.

    The rest of a shard that was read in part, not by tasks, is read here: the source knows of what
    rows that is the rest."""

    def __init__(self, source: Source, scan: Scan, budget: Budget) -> None:
        self._source = source
        self._step, self._width = READ_BY_TASKS[scan.table.connector]
        self._budget = budget
        self._shards = 1
        self._of_database = scan.table.connector == _DATABASE
        self._begun: set[str] = set()  # shards that were read here in part
        self.filters = source.filters

    def apply_filter(self, where: Scalar | None) -> None:
        self._source.apply_filter(where)

    @property
    def bounded(self) -> bool:
        return True

    def shards(self) -> list[str]:
        shards = self._source.shards()
        self._shards = len(shards)
        return shards

    def start(self, shard: str) -> int:
        return self._source.start(shard)

    def end(self, shard: str) -> int:
        """See `Source`. SqlError where the source cannot tell: to take it as empty would lose its
        rows."""
        source = self._source
        end = source.required_end(shard) if isinstance(source, WalledSource) else source.end(shard)
        return end or 0

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        end = self.end(shard) if until is None else until
        if shard in self._begun and offset < end:
            return self._source.read(shard, offset, max_rows=max_rows, until=end)
        if offset >= end or (until is None and self._budget.spent):
            return None
        if until is None:
            most = max(self._budget.share(self._shards) // self._width, self._step)
            end = self._behind(shard, offset, most, end)
            self._budget.spend(self._size(shard, offset, end))
        return Chunk(shard, offset, end, 0)

    def bounds(self, chunk: Chunk) -> Iterator[int]:
        """Yields the offsets at which a chunk is cut into splits, with its start and end."""
        at = chunk.start
        while at < chunk.end:
            yield at
            at = self._behind(chunk.shard, at, self._step, chunk.end)
        yield chunk.end

    def _size(self, shard: str, start: int, end: int) -> int:
        """Returns about how many bytes are read between two offsets."""
        return (end - start) * self._width

    def _behind(self, shard: str, start: int, most: int, end: int) -> int:
        """Returns the end of the record that is so many offsets behind `start`, or `end`."""
        at = start + most
        if at >= end:
            return end
        record = self._source.read(shard, at, max_rows=1)
        return min(end, at if record is None else record.end)

    def resume(self, positions: Mapping[str, int], marks: Mapping[str, str]) -> None:
        self._source.resume(positions, marks)
        if self._of_database:  # marks of files say other things
            self._begun |= marks.keys()

    def expect(self, shard: str, start: int, end: int, digest: str) -> None:
        self._source.expect(shard, start, end, digest)
        self._begun.add(shard)

    def marks(self) -> Mapping[str, str]:
        return self._source.marks()

    def close(self) -> None:
        self._source.close()


class PartRanges(RangeSource):
    """Ranges of a source whose shards have parts, such as groups of rows of Parquet: they end where
    a part ends, and count by the bytes that have to be read."""

    def parts(self, shard: str) -> Sequence[Part]:
        """See `Source`: where a file is left out, it is one part."""
        return self._source.parts(shard) or [Part(self.end(shard), 0)]

    def _size(self, shard: str, start: int, end: int) -> int:
        return sum(part.bytes for part in self.parts(shard) if start < part.end <= end)

    def _behind(self, shard: str, start: int, most: int, end: int) -> int:
        size = 0
        for part in self.parts(shard):
            size += part.bytes if part.end > start else 0
            if size >= most:
                return min(part.end, end)
        return end


def ranges_of(source: Source, scan: Scan, budget: Budget) -> RangeSource:
    """Returns what the graph knows of a source that tasks read."""
    of_parts = source.filters  # what can be left out are parts
    return (PartRanges if of_parts else RangeSource)(source, scan, budget)


class Budget:
    """The bytes that an epoch may still read."""

    def __init__(self) -> None:
        self._left = BYTES_PER_EPOCH

    @property
    def spent(self) -> bool:
        return self._left <= 0

    def share(self, shards: int) -> int:
        """Returns what one of so many shards may read."""
        return BYTES_PER_EPOCH // max(shards, 1)

    def spend(self, size: int) -> None:
        self._left -= size

    def renew(self) -> None:
        """Begins another epoch."""
        self._left = BYTES_PER_EPOCH
