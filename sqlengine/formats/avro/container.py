"""Avro's object container files: a schema, and blocks of records that may be compressed."""

from __future__ import annotations

import bz2
import lzma
import os
import zlib
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
from xxhash import xxh3_128

from parser.errors import ExecutionError
from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.formats.avro.decoder import BadDatum, BinaryDecoder, plain_schema, read_datum
from sqlengine.formats.avro.encoder import BinaryEncoder
from sqlengine.formats.avro.schemas import BadSchema, parse_schema

_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
_BLOCK: Final = 64 << 10
# No block of a file, and no schema, may take more memory.
_MOST_BYTES: Final = 256 << 20
_MOST_SCHEMA: Final = 16 << 20
# Bytes, before compression, after which no more rows are read at once.
_MOST_READ: Final = 8 << 20
# Rows of a block that takes no bytes for any.
_MOST_EMPTY: Final = 1 << 20
_LEFT_OUT: Final = "take the file away, or leave such files out: 'source.unreadable-files' = 'skip'"


class _Damaged(Exception):
    """A file that is no container file, with the reason in words."""


@dataclass(frozen=True)
class _Block:
    """The records from `first` on, so many, in `size` bytes at `at`."""

    first: int
    rows: int
    at: int
    size: int


@dataclass
class _Opened:
    """A block that is read from row `row` of the file on."""

    block: _Block
    data: BytesIO
    row: int


class ContainerReader:
    """Reads rows by their numbers. Knows where all blocks are, and keeps one open."""

    def __init__(self, path: Path, file: int, schema: Schema) -> None:
        """ExecutionError where the file is none, or a column has another type."""
        self._path, self._schema = path, schema
        self._file: BinaryIO = os.fdopen(os.dup(file), "rb")
        self._size = os.fstat(file).st_size
        try:
            self._open()
        except (_Damaged, BadSchema) as error:
            self._file.close()
            raise self._error(error) from None
        self._firsts = [b.first for b in self._blocks]
        self._held: _Opened | None = None

    def _open(self) -> None:
        self._file.seek(0)
        if self._file.read(len(_MAGIC)) != _MAGIC:
            raise _Damaged("it does not begin as an Avro file does")
        meta = self._meta()
        text = meta.get("avro.schema", b"").decode("utf-8", "replace")
        self._codec = meta.get("avro.codec", b"null").decode("utf-8", "replace")
        if self._codec not in _DECOMPRESS:
            raise _Damaged(f"its codec '{self._codec[:60]}' is not known")
        self._decoder = BinaryDecoder(self._schema, text)
        self._plain, self._least = plain_schema(text), parse_schema(text).least
        self._sync = self._exactly(_SYNC)
        self._blocks = self._found_blocks()

    def _meta(self) -> dict[str, bytes]:
        meta: dict[str, bytes] = {}
        while count := self._number():
            if count < 0:
                count = -count
                self._number()
            for _ in range(min(count, self._size)):
                key = self._exactly(self._length()).decode("utf-8", "replace")
                meta[key] = self._exactly(self._length())
        return meta

    def _found_blocks(self) -> list[_Block]:
        blocks: list[_Block] = []
        first = 0
        while self._file.tell() < self._size:
            rows, size = self._number(), self._number()
            at = self._file.tell()
            if rows < 0 or not 0 <= size <= self._size - at - _SYNC:
                raise _Damaged(f"a block behind row {first} is not complete")
            self._file.seek(at + size)
            if self._exactly(_SYNC) != self._sync:
                raise _Damaged(f"a block behind row {first} does not end as it should")
            if rows:
                blocks.append(_Block(first, rows, at, size))
            first += rows
        return blocks

    def _length(self) -> int:
        length = self._number()
        if not 0 <= length <= _MOST_SCHEMA:
            raise _Damaged("its head is too long")
        return length

    def _exactly(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            raise _Damaged("it ends too early")
        return data

    def _number(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._exactly(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise _Damaged("a number has more than ten bytes")

    @property
    def num_rows(self) -> int:
        return self._blocks[-1].first + self._blocks[-1].rows if self._blocks else 0

    def read(self, start: int, count: int) -> pa.RecordBatch:
        """See `FileReader`."""
        parts: list[pa.RecordBatch] = []
        end, left = min(start + count, self.num_rows), _MOST_READ
        while start < end and left > 0:
            block = self._blocks[bisect_right(self._firsts, start) - 1]
            try:
                opened = self._at(block, start)
                begin = opened.data.tell()
                parts.append(self._rows(opened, min(end, block.first + block.rows), begin + left))
            except (_Damaged, BadDatum) as error:
                self._held = None
                raise self._error(error) from None
            start, left = opened.row, left - (opened.data.tell() - begin)
        if not parts:
            return pa.RecordBatch.from_pylist([], self._schema.arrow)
        return parts[0] if len(parts) == 1 else pa.concat_batches(parts)

    def _at(self, block: _Block, row: int) -> _Opened:
        """Opens a block, and leaves out the rows before `row`."""
        held = self._held
        if held is None or held.block != block or held.row > row:
            self._file.seek(block.at)
            data = _decompressed(self._codec, self._exactly(block.size))
            if block.rows > (len(data) // self._least if self._least else _MOST_EMPTY):
                raise _Damaged(f"a block behind row {block.first} has more rows than it can hold")
            held = self._held = _Opened(block, BytesIO(data), block.first)
        while held.row < row:
            read_datum(held.data, self._plain)
            held.row += 1
        return held

    def _rows(self, opened: _Opened, end: int, most: int) -> pa.RecordBatch:
        """Reads rows up to `end`, at least one and none that begins behind `most` bytes."""
        first, values = opened.row, list[object]()
        while opened.row < end and (not values or opened.data.tell() < most):
            values.append(read_datum(opened.data, self._plain))
            opened.row += 1
        columns, failures = self._decoder.columns_of(values)
        if failures.reasons:
            row, reason = min(failures.reasons.items())
            raise _Damaged(f"row {first + row}: {reason}")
        return pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow)

    def _error(self, error: Exception) -> ExecutionError:
        return ExecutionError(
            f"'{self._path}' cannot be read as Avro", detail=str(error), hint=_LEFT_OUT
        )

    def close(self) -> None:
        self._held = None
        self._file.close()


class ContainerWriter:
    """Writes blocks of 64 KB, before compression. The mark between them is a digest of the schema
    and the first rows: a file that is made again is the same file."""

    def __init__(self, schema: Schema, text: str, codec: str) -> None:
        self._schema, self._text, self._codec = schema, text, codec
        self._encoder = BinaryEncoder(schema, text)
        self._pieces: list[bytes] = []
        self._rows = self.buffered = 0
        self._sync: bytes | None = None

    def write(self, rows: pa.RecordBatch) -> bytes:
        """See `FileWriter`."""
        batch = Batch(self._schema, tuple(rows.columns), rows.num_rows)
        out = bytearray()
        for record in self._encoder.encode(batch).to_pylist():
            self._pieces.append(record)
            self._rows += 1
            self.buffered += len(record)
            if self.buffered >= _BLOCK:
                out += self._block()
        return bytes(out)

    def finish(self) -> bytes:
        """See `FileWriter`."""
        return self._block() if self._rows or self._sync is None else b""

    def _block(self) -> bytes:
        data = b"".join(self._pieces)
        head = self._head(data) if self._sync is None else b""
        assert self._sync is not None
        if not self._rows:
            return head
        packed = _COMPRESS[self._codec](data)
        block = _written(self._rows) + _written(len(packed)) + packed + self._sync
        self._pieces, self._rows, self.buffered = [], 0, 0
        return head + block

    def _head(self, data: bytes) -> bytes:
        self._sync = xxh3_128(self._text.encode() + data).digest()
        meta = {b"avro.schema": self._text.encode(), b"avro.codec": self._codec.encode()}
        entries = b"".join(_written(len(p)) + p for entry in meta.items() for p in entry)
        return _MAGIC + _written(len(meta)) + entries + b"\0" + self._sync


def _written(number: int) -> bytes:
    """Returns a number that is not negative as Avro writes it."""
    out = bytearray()
    number <<= 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def _snapped(data: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return packed + zlib.crc32(data).to_bytes(4, "big")


def _unsnapped(data: bytes) -> bytes:
    size = shift = 0
    for byte in data[:5]:  # the number of bytes that come out stands first
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _MOST_BYTES:
        raise _Damaged("a block is too large")
    plain: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(plain).to_bytes(4, "big") != data[-4:]:
        raise _Damaged("a block has another checksum")
    return plain


def _zstd(data: bytes) -> bytes:
    with pa.input_stream(pa.BufferReader(data), compression="zstd") as stream:
        plain: bytes = stream.read(_MOST_BYTES + 1)
    return plain


_COMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": _deflated,
    "snappy": _snapped,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
_DECOMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": lambda data: zlib.decompressobj(wbits=-15).decompress(data, _MOST_BYTES + 1),
    "snappy": _unsnapped,
    "bzip2": lambda data: bz2.BZ2Decompressor().decompress(data, _MOST_BYTES + 1),
    "xz": lambda data: lzma.LZMADecompressor().decompress(data, _MOST_BYTES + 1),
    "zstandard": _zstd,
}


def _decompressed(codec: str, data: bytes) -> bytes:
    try:
        plain = _DECOMPRESS[codec](data)
    except (zlib.error, OSError, lzma.LZMAError, pa.ArrowException, EOFError) as error:
        raise _Damaged(f"a block cannot be decompressed: {error}") from None
    if len(plain) > _MOST_BYTES:
        raise _Damaged("a block is too large")
    return plain
