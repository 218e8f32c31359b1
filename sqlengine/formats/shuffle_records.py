"""The records that subtasks of a distributed graph exchange, besides the encoded batches."""

from __future__ import annotations

from typing import Final

import msgspec

from parser.types import BYTES, INT, Schema

# Rows for the shuffle sink of a subtask: the receiver, and the encoded `ShuffleRecord`.
OUTGOING_RECORDS: Final = Schema.of(
    subtask=INT.with_nullable(False), record=BYTES.with_nullable(False)
)


class ShuffleRecord(msgspec.Struct, array_like=True, frozen=True):
    """An encoded batch, and the exchange that it passes."""

    exchange_id: str
    batch: bytes


class SenderHeader(msgspec.Struct, array_like=True, frozen=True):
    """The sender of a record: its subtask, epoch and graph version."""

    subtask: int
    epoch: int
    version: int


_encode = msgspec.msgpack.Encoder().encode
_record_decoder = msgspec.msgpack.Decoder(ShuffleRecord)
_header_decoder = msgspec.msgpack.Decoder(SenderHeader)


def encode_record(record: ShuffleRecord) -> bytes:
    """Encodes a record as MessagePack."""
    return _encode(record)


def decode_record(data: bytes) -> ShuffleRecord:
    """Decodes a record. msgspec.DecodeError if it is not one."""
    return _record_decoder.decode(data)


def encode_header(header: SenderHeader) -> bytes:
    """Encodes a header as MessagePack."""
    return _encode(header)


def decode_header(data: bytes) -> SenderHeader:
    """Decodes a header. msgspec.DecodeError if it is not one."""
    return _header_decoder.decode(data)
