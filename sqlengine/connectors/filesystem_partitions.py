"""Partitions of files: folders `key=value` one in the other, whose names hold the values of the table's partition columns.

CREATE TABLE logs (line STRING, dt DATE, hr INT) PARTITIONED BY (dt, hr) WITH ('connector' = 'filesystem', …)

logs/dt=2024-05-01/hr=7/part-…        records without dt and hr"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ExecutionError, UnsupportedError
from parser.types import STRING, Column, DataType, Root, Schema
from planner.catalog import PARTITION, Table
from planner.scalar import Call, ColumnRef, Scalar
from sqlengine.batch import Batch, IntArray
from sqlengine.connectors.filesystem_sink import FileSink, file_name
from sqlengine.disk import MACHINE, Disk
from sqlengine.expressions import compile_expression, truth

# What the name of a folder cannot hold, as in Flink and Hive.
_ESCAPED: Final = frozenset(map(chr, range(1, 32))) | frozenset("\"#%'*/:=?\\\x7f{[]^")
_TYPES: Final = frozenset(
    (Root.CHAR, Root.VARCHAR, Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT)
) | frozenset((Root.DOUBLE, Root.DECIMAL, Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ))
_MINUTE: Final = re.compile(r"\d{4}-\d\d-\d\d.\d\d:\d\d", re.ASCII)
# So many files of partitions that get no rows stay open.
_OPEN: Final = 64
Texts: TypeAlias = tuple[str | None, ...]


def check_partitions(table: Table) -> None:
    """UnsupportedError where a partition column has a type that no name can hold, or all columns are such."""
    for column in table.schema.select(table.partition_keys):
        if column.type.root not in _TYPES:
            raise UnsupportedError(f"partition column '{column.name}' is {column.type.plain}, which no name can hold")
    if table.partition_keys and not table.physical.columns:
        raise UnsupportedError(f"all columns of table '{table.display}' are partition columns", hint="leave one out")


def folder_of(keys: Sequence[str], values: Texts, default: str) -> str:
    """The path of a partition below the table's folder; NULL and the empty text are named `default`."""
    return "/".join(f"{_escaped(k)}={_escaped(v) if v else default}" for k, v in zip(keys, values, strict=True))


def partitions(root: Path, keys: Sequence[str], default: str, disk: Disk = MACHINE) -> Iterator[tuple[Path, Texts]]:
    """The folders of partitions that there are, sorted, with their values."""
    waiting: list[tuple[Path, Texts]] = [(root, ())]
    while waiting:
        folder, values = waiting.pop()
        if len(values) == len(keys):
            yield folder, values
            continue
        names = disk.names(folder) if disk.is_folder(folder) else []
        below = [folder / n for n in sorted(names, reverse=True) if n[0] not in "._"]
        for path in filter(disk.is_folder, below):
            key, sign, text = path.name.partition("=")
            if sign and unquote(key) == keys[len(values)]:
                waiting.append((path, (*values, None if text == default else unquote(text))))


def _escaped(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def value_of(text: str | None, column: Column, place: Path) -> pa.Array:
    """A partition's value in the type of its column, as an array of one. ExecutionError where the text is none."""
    kind, source = column.type.with_nullable(True), STRING.with_nullable(True)
    if text is not None and kind.is_timestamp:
        text = text.replace("T", " ", 1) + (":00" if _MINUTE.fullmatch(text) else "")
    if text is not None and kind.is_string:
        return pa.array([text], kind.arrow)
    cast = compile_expression(Call("CAST", (ColumnRef("text", source),), kind))
    found = cast(Batch(Schema((Column("text", source),)), (pa.array([text], pa.string()),), 1))
    if found.errors is not None and found.errors.mask.any():
        raise ExecutionError(
            f"'{text}' in the name of folder '{place}' is no {kind.plain}",
            detail=f"partition column '{column.name}'",
        )
    return found.array(1)


def fulfils(where: Scalar, columns: Sequence[Column], values: Texts, place: Path) -> bool:
    """Whether the condition is TRUE for a partition, whose values are in the order of its columns."""
    arrays = tuple(value_of(text, column, place) for column, text in zip(columns, values, strict=True))
    row = Batch(Schema(tuple(Column(c.name, c.type.with_nullable(True)) for c in columns)), arrays, 1)
    return bool(truth(compile_expression(where)(row), 1)[0])


def texts_of(batch: Batch, column: Column) -> pa.Array:
    """What stands in the names of folders for the values of a column."""
    values = batch.column(column.name)
    if column.type.root is Root.BOOLEAN:
        return pc.if_else(values, "true", "false")
    target: DataType = STRING.with_nullable(True)
    cast = compile_expression(Call("CAST", (ColumnRef(column.name, column.type),), target))
    texts = cast(batch).array(batch.num_rows)
    return pc.replace_substring(texts, " ", "T") if column.type.is_timestamp else texts


class PartitionedFileSink:
    """One file for each partition that gets rows, each exactly once: an epoch that is repeated adds nothing where it was
    committed, and what is missing elsewhere."""

    guarantee: ClassVar[str] = "exactly-once"

    def __init__(
        self, table: Table, folder: Path, writer: str, default: str, *, fsync: bool, disk: Disk = MACHINE
    ) -> None:
        self._table, self._folder, self._writer, self._default = table, folder, writer, default
        self._fsync, self._disk = fsync, disk
        self._keys = tuple(table.schema.select(table.partition_keys))
        self._open: dict[str, FileSink] = {}
        self._written: dict[str, None] = {}
        disk.make_folder(folder, parents=True)
        journal = f".{file_name(table, writer)}.journal"
        self._last: int | None = None
        for path, _ in partitions(folder, table.partition_keys, default, disk):
            if disk.exists(path / journal):  # cuts off what was not committed
                sink = self._sink(path.relative_to(folder).as_posix())
                last = sink.last_epoch()
                self._last = last if self._last is None or (last or 0) > self._last else self._last
        self._close_idle()

    def last_epoch(self) -> int | None:
        return self._last

    def write(self, batch: Batch) -> None:
        if not batch.num_rows:
            return
        for folder, rows in self._by_folder(batch):
            self._sink(folder).write(batch.take(rows))
            self._written[folder] = None

    def _by_folder(self, batch: Batch) -> Iterator[tuple[str, IntArray]]:
        texts = [texts_of(batch, column).to_pylist() for column in self._keys]
        found: dict[Texts, list[int]] = {}
        for row, values in enumerate(zip(*texts, strict=True)):
            found.setdefault(values, []).append(row)
        names = [column.name for column in self._keys]
        for values, rows in found.items():
            yield folder_of(names, values, self._default), np.asarray(rows)

    def _sink(self, folder: str) -> FileSink:
        if folder not in self._open:
            path = self._folder / folder
            self._open[folder] = FileSink(self._table, path, self._writer, fsync=self._fsync, disk=self._disk)
        return self._open[folder]

    def commit(self, epoch: int) -> int:
        count = sum(self._open[folder].commit(epoch) for folder in self._written)
        self._written.clear()
        self._close_idle()
        self._last = epoch
        return count

    def _close_idle(self) -> None:
        for folder in list(self._open)[: max(len(self._open) - _OPEN, 0)]:
            self._open.pop(folder).close()

    def close(self) -> None:
        for sink in self._open.values():
            sink.close()


def columns_of_partitions(table: Table) -> dict[str, Column]:
    """The partition columns by the keys under which they are metadata."""
    return {PARTITION + c.name: c for c in table.schema.select(table.partition_keys)}
