"""The key by which a message that came before is known: the option 'deduplicate.key'."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import msgspec
from xxhash import xxh3_128_intdigest

from sqlengine.connectors.mqtt.metadata import Metadata, decode_metadata

# Returns one part of a key; None where the message has none.
_Part: TypeAlias = Callable[[bytes, Metadata], bytes | None]


class MessageKey:
    """The key of messages: parts separated by ; in a text, each `topic`, `payload`, `property:NAME`
    or `field:NAME`, a field of a JSON object. A message that lacks a part has no key."""

    def __init__(self, text: str) -> None:
        """Raises ValueError where the text names something else."""
        parts = [part.strip() for part in text.split(";")]
        fields = tuple(p.removeprefix("field:") for p in parts if p.startswith("field:"))
        self._fields = _fields_decoder(fields) if fields else None
        self._parts = [_part(p) for p in parts if not p.startswith("field:")]

    def __call__(self, payload: bytes, metadata: bytes) -> Hashable | None:
        """Returns the key as a digest."""
        kept = decode_metadata(metadata)
        found = [part(payload, kept) for part in self._parts]
        if self._fields is not None:
            found += self._fields(payload)
        if None in found:
            return None
        return xxh3_128_intdigest(msgspec.msgpack.encode(found))


def key_text(text: str) -> str:
    """Checks the option 'deduplicate.key'. ValueError says what is wrong."""
    MessageKey(text)
    return text


def _part(text: str) -> _Part:
    if text == "payload":
        return lambda payload, _: payload
    if text == "topic":
        return lambda _, kept: kept.topic.encode()
    kind, colon, name = text.partition(":")
    if kind == "property" and colon and name:
        return lambda _, kept: next((v.encode() for k, v in kept.user if k == name), None)
    raise ValueError("expected parts such as field:id, property:id, topic and payload")


def _fields_decoder(names: Sequence[str]) -> Callable[[bytes], list[bytes | None]]:
    """Returns what reads some fields of a JSON object, each as it is written."""
    if not all(names):
        raise ValueError("expected the name of a field after 'field:'")
    decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

    def fields(payload: bytes) -> list[bytes | None]:
        try:
            record = decode(payload)
        except msgspec.MsgspecError:
            return [None]
        return [None if (v := record.get(n)) is None else bytes(v) for n in names]

    return fields
