"""Metadata of messages: kept with the payload, and read as columns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec
import pyarrow as pa

from parser.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    INT,
    STRING,
    DataType,
    array,
    map_of,
    timestamp_ltz,
)
from sqlengine.broker.base import Records
from sqlengine.connectors.mqtt.properties import Decoded, Properties
from sqlengine.connectors.topic.rows import MetadataKey, TopicRows

COLUMNS: Final[Mapping[str, DataType]] = {
    "topic": STRING,
    "topic.levels": array(STRING),
    "qos": INT,
    "retained": BOOLEAN,
    "properties": map_of(STRING, STRING),
    "content-type": STRING,
    "response-topic": STRING,
    "correlation-data": BYTES,
    "timestamp": timestamp_ltz(3),
    "offset": BIGINT,
}


class Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """The metadata of one message. `number`: that of its packet with QoS 2, by which a repetition
    is known."""

    topic: str = msgspec.field(name="t")
    qos: int = msgspec.field(name="q", default=0)
    retained: bool = msgspec.field(name="r", default=False)
    number: int = msgspec.field(name="n", default=0)
    user: tuple[tuple[str, str], ...] = msgspec.field(name="u", default=())
    content_type: str | None = msgspec.field(name="c", default=None)
    response_topic: str | None = msgspec.field(name="a", default=None)
    correlation: bytes | None = msgspec.field(name="d", default=None)

    @classmethod
    def of(cls, topic: str, qos: int, retained: bool, number: int, told: Decoded) -> Metadata:
        """Returns what is kept of a message with these properties."""
        return cls(
            topic,
            qos,
            retained,
            number,
            told.user,
            told.text(Properties.CONTENT_TYPE),
            told.text(Properties.RESPONSE_TOPIC),
            told.texts.get(Properties.CORRELATION),
        )


encode_metadata = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(Metadata)


@lru_cache(maxsize=20_000)
def decode_metadata(data: bytes) -> Metadata:
    """Returns what was kept of a message."""
    return _decoder.decode(data)


class MqttRows(TopicRows):
    """Makes rows of messages. Most of them share their metadata with others, so that each is
    decoded once for all."""

    def metadata(self, key: MetadataKey, records: Records) -> pa.Array:
        """See `TopicRows`."""
        if key.key in ("timestamp", "offset") or records.keys is None:
            return super().metadata(key, records)
        coded = records.keys.dictionary_encode()
        values = [_value(key.key, decode_metadata(one)) for one in coded.dictionary.to_pylist()]
        found = pa.array(values, COLUMNS[key.key].arrow).take(coded.indices)
        return found if found.type == key.type.arrow else found.cast(key.type.arrow, safe=False)


def _value(key: str, kept: Metadata) -> object:
    match key:
        case "topic":
            return kept.topic
        case "topic.levels":
            return kept.topic.split("/")
        case "qos":
            return kept.qos
        case "retained":
            return kept.retained
        case "properties":
            return list(dict(kept.user).items())
        case "content-type":
            return kept.content_type
        case "response-topic":
            return kept.response_topic
        case _:
            return kept.correlation
