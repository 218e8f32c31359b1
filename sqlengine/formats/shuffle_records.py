"""The headers of records that the parts of a divided graph exchange."""

from __future__ import annotations

from typing import Final

import msgspec

from parser.types import BYTES, INT, Schema

# Rows for the sink of a part: where each parcel goes, and the parcel.
PARCELS: Final = Schema.of(part=INT.with_nullable(False), parcel=BYTES.with_nullable(False))


class ShuffleRecord(msgspec.Struct, array_like=True, frozen=True):
    """A batch in bytes on its way over a crossing."""

    crossing: str
    batch: bytes


class SenderHeader(msgspec.Struct, array_like=True, frozen=True):
    """The sender of a record: the part, the epoch, and the version of its graph."""

    part: int
    epoch: int
    version: int


_encode = msgspec.msgpack.Encoder().encode
_parcel = msgspec.msgpack.Decoder(ShuffleRecord)
_stamp = msgspec.msgpack.Decoder(SenderHeader)


def encode_record(parcel: ShuffleRecord) -> bytes:
    return _encode(parcel)


def decode_record(data: bytes) -> ShuffleRecord:
    return _parcel.decode(data)


def encode_header(stamp: SenderHeader) -> bytes:
    return _encode(stamp)


def decode_header(data: bytes) -> SenderHeader:
    return _stamp.decode(data)
