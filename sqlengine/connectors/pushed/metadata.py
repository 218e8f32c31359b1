"""The metadata of pushed messages: kept with them, and read as columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa

from parser.types import BIGINT, STRING, DataType, timestamp_ltz
from sqlengine.broker.base import Records
from sqlengine.connectors.topic.rows import MetadataKey, TopicRows

COLUMNS: Final[Mapping[str, DataType]] = {
    "timestamp": timestamp_ltz(3),
    "offset": BIGINT,
    "peer": STRING,
    "principal": STRING,
}


class Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """The metadata of one message: the address and the name of who has sent it, and on the first of
    a request the request's key."""

    peer: str | None = msgspec.field(name="p", default=None)
    principal: str | None = msgspec.field(name="n", default=None)
    key: str | None = msgspec.field(name="k", default=None)


encode_metadata = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Metadata)


@lru_cache(maxsize=20_000)
def decode_metadata(data: bytes) -> Metadata:
    """Returns what was kept of a message."""
    return _decoder.decode(data)


class PushedRows(TopicRows):
    """Makes rows of pushed messages, most of which share their metadata with others."""

    def metadata(self, key: MetadataKey, records: Records) -> pa.Array:
        """See `TopicRows`."""
        if key.key in ("timestamp", "offset") or records.keys is None:
            return super().metadata(key, records)
        coded = records.keys.dictionary_encode()
        kept = [decode_metadata(one) for one in coded.dictionary.to_pylist()]
        values = [one.peer if key.key == "peer" else one.principal for one in kept]
        found = pa.array(values, pa.string()).take(coded.indices)
        return found if found.type == key.type.arrow else found.cast(key.type.arrow, safe=False)
