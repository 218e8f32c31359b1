"""What a format is: bytes to columns and back, with the bad records apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from parser.types import DataType, Schema
from sqlengine.batch import Batch, RowKind
from sqlengine.formats.lines import Framing


@dataclass(frozen=True)
class Option:
    """One WITH option: `parse` checks and converts its text (ValueError says what is wrong);
    `default` is text."""

    parse: Callable[[str], object] = str
    required: bool = False
    default: str | None = None
    doc: str = ""


@dataclass(frozen=True)
class BadRecord:
    """Record `row` of what was to be decoded cannot be: `reason` in words, naming the column where
    there is one."""

    row: int
    reason: str


@dataclass(frozen=True)
class Decoded:
    """`columns` by the decoder's schema. `rows[i]` is the record that row i came from (None when
    each record gave one row, in order); records in `bad` gave none. `kinds` holds a RowKind per
    row, None when all are +I; `metadata` the columns that were asked for of what a record tells
    besides its rows."""

    columns: tuple[pa.Array, ...]
    num_rows: int
    rows: npt.NDArray[np.int64] | None = None
    bad: tuple[BadRecord, ...] = ()
    kinds: npt.NDArray[np.int8] | None = None
    metadata: tuple[pa.Array, ...] = ()


class Decoder(Protocol):
    """Made for one set of columns; called once a batch for all jobs."""

    def decode(self, records: pa.Array) -> Decoded:
        """`records` is a BinaryArray without NULLs. Never raises for data."""


class Encoder(Protocol):
    def encode(self, batch: Batch) -> pa.Array:
        """One BinaryArray entry per row (row kinds are the business of a `ChangelogFormat`
        only)."""


class Format(Protocol):
    """One file in this folder defines one of these and registers it with `@format_('json')`.
    Options arrive without the format's prefix ('fail-on-missing-field', not
    'json.fail-on-missing-field'); an unknown one is refused by name."""

    name: ClassVar[str]
    line_separated: ClassVar[bool]
    options: ClassVar[Mapping[str, Option]]  # without the prefix

    def decoder(
        self, schema: Schema, options: Mapping[str, str], columns: Sequence[str] | None = None
    ) -> Decoder:
        """Reads records of `schema`; gives all of its columns or those of `columns`, in the order
        of the schema. PlanError for a bad option, UnsupportedError for a column type that the
        format cannot hold."""

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder: ...


@runtime_checkable
class Frames(Protocol):
    """What a format has besides, where the records of a file are not simply its lines."""

    def framing(self, options: Mapping[str, str]) -> Framing: ...


class FileReader(Protocol):
    """A file that is read by the numbers of its rows."""

    @property
    def num_rows(self) -> int: ...

    def read(self, start: int, count: int) -> pa.RecordBatch:
        """So many rows from `start` on, or as many as there are: the columns of the schema, in its
        order and types. ExecutionError where the file holds what they cannot."""

    def close(self) -> None: ...


class FileWriter(Protocol):
    """Makes a file, from its beginning to its end."""

    @property
    def held(self) -> int:
        """About how many bytes it holds back."""

    def write(self, rows: pa.RecordBatch) -> bytes:
        """The bytes of the file that come next, perhaps none yet."""

    def finish(self) -> bytes:
        """The last bytes of the file."""


@runtime_checkable
class FileFormat(Protocol):
    """What a format has besides that is one of whole files, and not of records: decoder and encoder
    refuse then."""

    def check(self, schema: Schema, options: Mapping[str, str]) -> None:
        """PlanError for a bad option, UnsupportedError for a column type that the format cannot
        hold."""

    def reader(self, path: Path, schema: Schema, options: Mapping[str, str]) -> FileReader:
        """Opens a file. ExecutionError where it is none of this format, or a column has another
        type."""

    def writer(self, schema: Schema, options: Mapping[str, str]) -> FileWriter: ...


@runtime_checkable
class ChangelogFormat(Protocol):
    """What a format has besides, whose records are changes."""

    kinds: ClassVar[frozenset[RowKind]]  # those that its records may bring; all can be written
    metadata: ClassVar[Mapping[str, DataType]]  # by key, what a record tells besides its rows

    def decoder_with(
        self,
        metadata: Sequence[str],
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
    ) -> Decoder:
        """As `Format.decoder`, with columns of metadata by their keys."""
