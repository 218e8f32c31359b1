"""A connector that appends rows to a file of text, and a format of fields with | between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from sqlengine import (
    BadRecord,
    Batch,
    Capabilities,
    Connector,
    Decoded,
    Decoder,
    DeliveryGuarantee,
    Encoder,
    Environment,
    Format,
    Option,
    Schema,
    Sink,
    SinkCapabilities,
    Table,
)


class LinesConnector(Connector):
    """Opens sinks that append each row to the file 'path'."""

    name: ClassVar[str] = "lines"
    capabilities: ClassVar[Capabilities] = Capabilities(
        sink=SinkCapabilities(
            guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
            condition="rows since the last checkpoint are appended again after a crash",
        )
    )
    options: ClassVar[Mapping[str, Option]] = {
        "path": Option(required=True, doc="the file that lines are appended to")
    }

    def sink(self, table: Table, environment: Environment) -> Sink:
        return LinesSink(Path(table.options["path"]))


class LinesSink(Sink):
    """Appends the rows of an epoch at its commit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[str] = []

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        self._lines += [" ".join(map(str, row)) for row in rows]

    def commit(self, epoch: int) -> int:
        lines, self._lines = self._lines, []
        with self._path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        return len(lines)

    def close(self) -> None: ...


class PipesFormat(Format):
    """Reads and writes columns of texts as `one|two`."""

    name: ClassVar[str] = "pipes"

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        return PipesDecoder(schema, schema.names if columns is None else tuple(columns))

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        return PipesEncoder()


class PipesDecoder(Decoder):
    """Splits records; one with too few or too many fields is bad."""

    def __init__(self, schema: Schema, wanted: Sequence[str]) -> None:
        self._width = len(schema)
        self._places = [i for i, name in enumerate(schema.names) if name in wanted]

    def decode(self, records: pa.Array) -> Decoded:
        split = [record.decode().split("|") for record in records.to_pylist()]
        good = [i for i, fields in enumerate(split) if len(fields) == self._width]
        bad = [
            BadRecord(i, f"{len(fields)} fields, not {self._width}")
            for i, fields in enumerate(split)
            if len(fields) != self._width
        ]
        columns = tuple(pa.array([split[i][p] for i in good], pa.string()) for p in self._places)
        return Decoded(columns, len(good), pa.array(good, pa.int64()).to_numpy(), tuple(bad))


class PipesEncoder(Encoder):
    """Joins the fields of each row."""

    def encode(self, batch: Batch) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return pa.array(["|".join(map(str, row)).encode() for row in rows], pa.binary())
