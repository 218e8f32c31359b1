"""Partitions of files: folders `key=value` one in the other, whose names hold the values of the
table's partition columns.

CREATE TABLE logs (line STRING, dt DATE, hr INT) PARTITIONED BY (dt, hr) WITH ('connector' =
'filesystem', …)

logs/dt=2024-05-01/hr=7/part-…        records without dt and hr"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import ExecutionError, UnsupportedColumn, UnsupportedError
from parser.types import STRING, Column, DataType, Root, Schema
from planner.catalog import PARTITION, Table
from planner.scalar import Call, ColumnRef, Scalar
from sqlengine.batch import Batch
from sqlengine.expressions import compile_expression, truth
from sqlengine.system.disk import MACHINE, Disk

# What the name of a folder cannot hold, as in Flink and Hive.
_ESCAPED: Final = frozenset(map(chr, range(32))) | frozenset("\"#%'*/:=?\\\x7f{[]^")
_TYPES: Final = frozenset(
    (
        Root.CHAR,
        Root.VARCHAR,
        Root.BOOLEAN,
        Root.TINYINT,
        Root.SMALLINT,
        Root.INT,
        Root.BIGINT,
        Root.FLOAT,
    )
) | frozenset((Root.DOUBLE, Root.DECIMAL, Root.DATE, Root.TIME, Root.TIMESTAMP, Root.TIMESTAMP_LTZ))
_MINUTE: Final = re.compile(r"\d{4}-\d\d-\d\d.\d\d:\d\d", re.ASCII)
Texts: TypeAlias = tuple[str | None, ...]
# Bytes of a name in a folder, in all common file systems.
MAX_NAME: Final = 255


def check_partitions(table: Table) -> None:
    """Raises UnsupportedError where a partition column has a type that no name can hold, or all
    columns are such."""
    for column in table.schema.select(table.partition_keys):
        if column.type.root not in _TYPES:
            raise UnsupportedColumn(
                f"partition column '{column.name}' is {column.type.plain}, which no name can hold",
                hint="leave it out of PARTITIONED BY",
                subject=column.name,
            )
        if len(_escaped(column.name).encode()) > MAX_NAME // 2:
            raise UnsupportedColumn(
                f"the name of partition column '{column.name}' is too long for that of a folder",
                hint=f"{MAX_NAME // 2} bytes at most, where / and such count three",
                subject=column.name,
            )
    if table.partition_keys and not table.physical.columns:
        raise UnsupportedError(
            f"all columns of table '{table.display}' are partition columns", hint="leave one out"
        )


def folder_of(keys: Sequence[str], values: Texts, default: str) -> str:
    """The path of a partition below the table's folder; NULL and the empty text are named
    `default`."""
    return "/".join(_name(k, v, default) for k, v in zip(keys, values, strict=True))


def _name(key: str, value: str | None, default: str) -> str:
    return f"{_escaped(key)}={_escaped(value) if value else default}"


def rows_without_folder(table: Table, batch: Batch) -> dict[int, str]:
    """Returns the rows whose partition no folder can be named after, with the reason: the escaped
    name is longer than a name can be."""
    found: dict[int, str] = {}
    for column in table.schema.select(table.partition_keys):
        values = batch.column(column.name)
        if not column.type.is_string or not _may_be_long(column.name, values):
            continue
        for row, text in enumerate(values.to_pylist()):
            size = len(_name(column.name, text, "").encode())
            if size > MAX_NAME:
                found.setdefault(
                    row,
                    f"partition column '{column.name}' gives a folder a name of {size} bytes, and"
                    f" it may have {MAX_NAME}",
                )
    return found


def _may_be_long(name: str, values: pa.Array) -> bool:
    """False if no value can be too long, even if each of its bytes is escaped."""
    longest = pc.max(pc.binary_length(values)).as_py() or 0
    return (len(name.encode()) + longest) * 3 + 1 > MAX_NAME


def partitions(
    root: Path, keys: Sequence[str], default: str, disk: Disk = MACHINE
) -> Iterator[tuple[Path, Texts]]:
    """Returns the folders of existing partitions, sorted, with their values."""
    waiting: list[tuple[Path, Texts]] = [(root, ())]
    while waiting:
        folder, values = waiting.pop()
        if len(values) == len(keys):
            yield folder, values
            continue
        names = disk.names(folder) if disk.is_folder(folder) else []
        for path in (folder / n for n in sorted(names, reverse=True)):
            key, sign, text = path.name.partition("=")
            if sign and unquote(key) == keys[len(values)] and disk.is_folder(path):
                waiting.append((path, (*values, None if text == default else unquote(text))))


def _escaped(text: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def value_of(text: str | None, column: Column, place: Path) -> pa.Array:
    """A partition's value in the type of its column, as an array of one. ExecutionError where the
    text is none."""
    kind, source = column.type.with_nullable(True), STRING.with_nullable(True)
    if text is not None and kind.is_timestamp:
        text = text.replace("T", " ", 1) + (":00" if _MINUTE.fullmatch(text) else "")
    if text is not None and kind.is_string:
        return pa.array([text], kind.arrow)
    cast = compile_expression(Call("CAST", (ColumnRef("text", source),), kind))
    result = cast(Batch(Schema((Column("text", source),)), (pa.array([text], pa.string()),), 1))
    if result.errors is not None and result.errors.mask.any():
        raise ExecutionError(
            f"'{text}' in the name of folder '{place}' is no {kind.plain}",
            detail=f"partition column '{column.name}'",
        )
    return result.array(1)


def listed(root: Path, keys: Sequence[str], default: str) -> list[str]:
    """Returns the existing partitions as SHOW PARTITIONS names them: `dt=2024-05-01/hr=7`."""
    return [
        "/".join(folder.relative_to(root).parts) for folder, _ in partitions(root, keys, default)
    ]


def fulfils(where: Scalar, columns: Sequence[Column], values: Texts, place: Path) -> bool:
    """True if the condition is TRUE for a partition; its values are in the order of its columns."""
    arrays = tuple(
        value_of(text, column, place) for column, text in zip(columns, values, strict=True)
    )
    row = Batch(
        Schema(tuple(Column(c.name, c.type.with_nullable(True)) for c in columns)), arrays, 1
    )
    return bool(truth(compile_expression(where)(row), 1)[0])


def texts_of(batch: Batch, column: Column) -> pa.Array:
    """Returns the values of a column as they are written in the names of folders."""
    values = batch.column(column.name)
    if column.type.root is Root.BOOLEAN:
        return pc.if_else(values, "true", "false")
    target: DataType = STRING.with_nullable(True)
    cast = compile_expression(Call("CAST", (ColumnRef(column.name, column.type),), target))
    texts = cast(batch).array(batch.num_rows)
    return pc.replace_substring(texts, " ", "T") if column.type.is_timestamp else texts


def columns_of_partitions(table: Table) -> dict[str, Column]:
    """The partition columns by the keys under which they are metadata."""
    return {PARTITION + c.name: c for c in table.schema.select(table.partition_keys)}
