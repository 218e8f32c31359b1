"""Writing files of the format 'parquet'."""

from __future__ import annotations

from collections.abc import Mapping
from io import RawIOBase
from typing import Any, Final

import pyarrow as pa

from parser.types import Schema

_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": None}
# A group of rows is held in memory until it has so many rows or bytes.
_GROUP_ROWS: Final = 1 << 20


def library() -> Any:
    """Loaded where a table needs it: it takes 20 MB."""
    import pyarrow.parquet

    return pyarrow.parquet


class ParquetWriter:
    """Holds a group of rows until it is large enough, and writes it then."""

    def __init__(self, schema: Schema, options: Mapping[str, object]) -> None:
        block = options["block.size"]
        assert isinstance(block, int)
        self._block = block
        self._out = _Bytes()
        int64 = bool(options["write.int64.timestamp"])
        unit = _UNITS[str(options["timestamp.time.unit"])] if int64 else None
        codec = str(options["compression"])
        self._writer = library().ParquetWriter(
            self._out,
            schema.arrow,
            compression="NONE" if codec == "UNCOMPRESSED" else codec,
            use_dictionary=bool(options["enable.dictionary"]),
            data_page_size=options["page.size"],
            use_deprecated_int96_timestamps=not int64,
            coerce_timestamps=unit,
            allow_truncated_timestamps=unit is not None,
            store_schema=False,
        )
        self._rows: list[pa.RecordBatch] = []
        self._count = self.buffered = 0

    def write(self, rows: pa.RecordBatch) -> bytes:
        self._rows.append(rows)
        self._count += len(rows)
        self.buffered += rows.nbytes
        if self.buffered >= self._block or self._count >= _GROUP_ROWS:
            self._write_group()
        return self._out.taken()

    def _write_group(self) -> None:
        if self._rows:
            table = pa.Table.from_batches(self._rows).combine_chunks()
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._rows, self._count, self.buffered = [], 0, 0

    def finish(self) -> bytes:
        self._write_group()
        self._writer.close()
        return self._out.taken()


class _Bytes(RawIOBase):
    """A file in memory whose bytes are taken as they are written."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._at = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def write(self, data: object) -> int:
        piece = bytes(memoryview(data))  # type: ignore[arg-type]
        self._pieces.append(piece)
        self._at += len(piece)
        return len(piece)

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
