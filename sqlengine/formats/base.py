"""The interfaces of formats: bytes to columns and back, with the bad records apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.errors import ColumnError, ExecutionError, UnsupportedColumn, UnsupportedError
from parser.types import DataType as DataType
from parser.types import Schema as Schema
from planner.logical.change_kinds import INSERT_ONLY, ChangelogMode
from planner.scalar import Scalar
from sqlengine.batch import Batch
from sqlengine.formats.lines import Framing, LineFraming
from sqlengine.system.file_access import FileAccess


@dataclass(frozen=True)
class Option:
    """A WITH option: `parse` checks and converts its text (ValueError says what is wrong);
    `default` is text. `secret`: nobody may read its value (None: its name tells); `place`: it says
    with whom the table shares its secrets."""

    parse: Callable[[str], object] = str
    required: bool = False
    default: str | None = None
    doc: str = ""
    secret: bool | None = None
    place: bool = False


@dataclass(frozen=True)
class BadRecord:
    """Record `row` of what was to be decoded cannot be: `reason` in words, naming the column where
    there is one."""

    row: int
    reason: str


@dataclass(frozen=True)
class Decoded:
    """The rows of a batch of records: `columns` by the decoder's schema.

    `rows[i]` is the record that row i came from (None when each record gave one row, in order);
    records in `bad` gave none. `kinds` holds a RowKind per row, None when all are +I; `metadata`
    holds the requested metadata columns."""

    columns: tuple[pa.Array, ...]
    num_rows: int
    rows: npt.NDArray[np.int64] | None = None
    bad: tuple[BadRecord, ...] = ()
    kinds: npt.NDArray[np.int8] | None = None
    metadata: tuple[pa.Array, ...] = ()


@dataclass(frozen=True)
class FormatCapabilities:
    """The capabilities of a format.

    `changelog`: the kinds of rows that its records bring, and that can be written; `bulk`: it is
    one of whole files (Flink's `BulkDecodingFormat`), and of `records` only if it says so;
    `line_separated`: its records can be kept in files, one after the other; `statistics`: its
    readers know parts of a file that need not be read (`PartedReader`)."""

    changelog: ChangelogMode = INSERT_ONLY
    bulk: bool = False
    line_separated: bool = True
    statistics: bool = False
    records: bool | None = None

    @property
    def has_records(self) -> bool:
        """True if it is (also) one of records, which a topic can hold."""
        return not self.bulk if self.records is None else self.records


class OutOfReach(ExecutionError):
    """A service that a format needs besides the record does not answer: no fault of the record."""


class Decoder(Protocol):
    """Reads records as columns. Made for one set of columns; called once a batch for all jobs."""

    def decode(self, records: pa.Array) -> Decoded:
        """Decodes a BinaryArray without NULLs. Never raises for data; OutOfReach where something
        else is missing."""


class Encoder(Protocol):
    """Writes rows as records."""

    def encode(self, batch: Batch) -> pa.Array:
        """Returns a BinaryArray with one entry per row. Row kinds are written by formats with a
        `changelog` only."""


class FileReader(Protocol):
    """A file that is read by the numbers of its rows."""

    @property
    def num_rows(self) -> int: ...

    def read(self, start: int, count: int) -> pa.RecordBatch:
        """Returns `count` rows from `start` on, or as many as there are; fewer, but one, where they
        take much memory. The columns of the schema, in its order and types. ExecutionError where
        the file holds values that they cannot."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class FilePart:
    """Consecutive rows of a file, of so many bytes, that are best read by one reader. `kept`: False
    where none of them can fulfil the condition that was asked about."""

    rows: int
    bytes: int
    kept: bool = True


@runtime_checkable
class PartedReader(FileReader, Protocol):
    """A file whose statistics tell of parts whether they need be read."""

    def parts(self, where: Scalar | None) -> Sequence[FilePart]:
        """Returns all parts of the file, in order. Those that `where` rules out need not be read
        from now on, but may be."""


class FileWriter(Protocol):
    """Makes a file, from its beginning to its end."""

    @property
    def buffered(self) -> int:
        """About how many bytes it holds back."""

    def write(self, rows: pa.RecordBatch) -> bytes:
        """Returns the bytes of the file that come next, perhaps none yet."""

    def finish(self) -> bytes:
        """Returns the last bytes of the file."""


class Format:
    """Decodes and encodes the records, or the files, of a table.

    A subclass stands in a file of its own, and is found by its entry point in the group
    'sqlengine.formats', as connectors are. It is made without arguments.

    Options arrive without the format's prefix ('fail-on-missing-field', not
    'json.fail-on-missing-field'); an unknown one is refused by name. `metadata`: the types of
    metadata columns by key that a record has besides its rows."""

    name: ClassVar[str]
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities()
    options: ClassVar[Mapping[str, Option]] = {}
    metadata: ClassVar[Mapping[str, DataType]] = {}

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        """Returns a decoder of records of `schema`.

        It gives all columns or those of `columns`, in the order of the schema, and columns of
        `metadata` by their keys. PlanError for a bad option, UnsupportedError for a column type
        that the format cannot hold, or where it is one of whole files."""
        raise self._has_no_records()

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        """Writes rows of `schema`. Raises as `decoder` does."""
        raise self._has_no_records()

    def connect(
        self, options: Mapping[str, str], filled: Mapping[str, str], files: FileAccess
    ) -> None:
        """Takes note, where a table is opened, of what decoders and encoders cannot see: the values
        of secrets (`filled` are `options` with them), and files that options name. PlanError for a
        file that is wrong, or that SQL may not read (`files`). Reaches no service yet."""

    def prepare(self, records: pa.Array, options: Mapping[str, str]) -> None:
        """Fetches what decoders of these records need from elsewhere, so that they need not wait
        for it. Called where records are read, and may block there; OutOfReach where a service does
        not answer."""

    def framing(self, options: Mapping[str, str]) -> Framing:
        """Returns how the records of a file are separated: by lines unless overridden."""
        return LineFraming()

    def check(self, schema: Schema, options: Mapping[str, str]) -> None:
        """PlanError for a bad option, UnsupportedError for a column type that the format cannot
        hold. Opens nothing."""
        self.decoder(schema, options)

    def reader(
        self, path: Path, file: int, schema: Schema, options: Mapping[str, str]
    ) -> FileReader:
        """Opens a file (capability `bulk`): what the descriptor `file` stands for, which is closed
        afterwards, under the name `path`. ExecutionError where it is not of this format, or a
        column has another type."""
        raise NotImplementedError(f"format '{self.name}' has no files")

    def writer(self, schema: Schema, options: Mapping[str, str]) -> FileWriter:
        """Makes a file (capability `bulk`)."""
        raise NotImplementedError(f"format '{self.name}' has no files")

    def _has_no_records(self) -> UnsupportedError:
        return UnsupportedError(
            f"format '{self.name}' is one of whole files, and not of records",
            hint="it goes with 'connector' = 'filesystem'",
        )


def selected(schema: Schema, columns: Iterable[str] | None) -> Schema:
    """The columns of `schema` that `columns` names (None: all), in its order."""
    names = None if columns is None else set(columns)
    return Schema(tuple(c for c in schema if names is None or c.name in names))


@contextmanager
def of_column(name: str) -> Iterator[None]:
    """Raises UnsupportedColumn in the place of an UnsupportedError that knows only a type."""
    try:
        yield
    except UnsupportedError as error:
        if isinstance(error, ColumnError):
            raise
        raise UnsupportedColumn(
            f"{error.message}, in column '{name}'",
            detail=error.detail,
            hint=error.hint,
            subject=name,
        ) from None
