"""What goes over the wire to RocketMQ and back: every form that messages may have, and damage."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlengine.broker.rocketmq import codes, wire
from sqlengine.broker.rocketmq import messages as forms
from sqlengine.broker.rocketmq.messages import (
    Outgoing,
    batch_body,
    packed_body,
    plain_body,
    properties_of,
    property_text,
    stored,
)
from sqlengine.broker.rocketmq.wire import Account

NUMBERS = st.integers(0, 2**31 - 1)
LONG = st.integers(0, 2**62)
NAMES = st.text(
    st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=20
)
PROPERTIES = st.dictionaries(NAMES, NAMES | st.just(""), max_size=4)


@dataclass(frozen=True)
class Stored:
    """A message as a broker keeps it: with the hosts of a network of either kind, and a topic of
    either length."""

    queue: int
    offset: int
    born_ms: int
    stored_ms: int
    body: bytes
    topic: str
    properties: dict[str, str]
    born_v6: bool
    stored_v6: bool
    long_topic: bool

    def bytes(self) -> bytes:
        hosts = [bytes(20 if v6 else 8) for v6 in (self.born_v6, self.stored_v6)]
        flags = self.born_v6 * codes.BORN_V6 | self.stored_v6 * codes.STORED_V6
        topic, text = self.topic.encode(), property_text(self.properties).encode()
        rest = (
            struct.pack(">iiiqqiq", 0, self.queue, 0, self.offset, 7, flags, self.born_ms)
            + hosts[0] + struct.pack(">q", self.stored_ms) + hosts[1]
            + struct.pack(">iqi", 0, 0, len(self.body)) + self.body
            + struct.pack(">H" if self.long_topic else ">B", len(topic)) + topic
            + struct.pack(">H", len(text)) + text
        )  # fmt: skip
        magic = -626843477 if self.long_topic else -626843481
        return struct.pack(">ii", len(rest) + 8, magic) + rest


MESSAGES = st.builds(
    Stored, NUMBERS, LONG, LONG, LONG, st.binary(max_size=30), st.text("ab", max_size=9), PROPERTIES,
    st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip


@given(st.lists(MESSAGES, max_size=5))
def test_messages_of_all_forms_are_read(messages: list[Stored]) -> None:
    data = b"".join(m.bytes() for m in messages)
    found = list(stored(data))
    assert [
        (m.queue, m.offset, m.born_ms, m.stored_ms, m.body, properties_of(m.properties))
        for m in found
    ] == [(m.queue, m.offset, m.born_ms, m.stored_ms, m.body, m.properties) for m in messages]
    assert [m.behind for m in found][-1:] == ([len(data)] if messages else [])


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.data())
def test_damage_is_an_error_and_nothing_else(messages: list[Stored], data: st.DataObject) -> None:
    whole = bytearray(b"".join(m.bytes() for m in messages))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    with suppress(ValueError):
        for message in stored(cut):
            assert len(message.body) <= len(cut)


@pytest.mark.parametrize("kind", [codes.ZLIB, codes.ZSTD, codes.LZ4, 0])
def test_bodies_are_unpacked(kind: int) -> None:
    """As our sinks pack them, and as clients in Java do: 0 is what old ones say of zlib."""
    plain = b"abc" * 1000
    if kind in (codes.ZLIB, codes.ZSTD):
        body, flags = packed_body(plain, kind)
    else:
        body = zlib.compress(plain) if kind == 0 else pa.compress(plain, "lz4", asbytes=True)
        flags = codes.COMPRESSED | kind << codes.COMPRESSION_SHIFT
    (message,) = stored(Stored(0, 0, 0, 0, body, "t", {}, False, False, False).bytes())
    assert plain_body(message._replace(flags=flags)) == plain
    assert len(body) < len(plain)
    with pytest.raises(ValueError, match="cannot be unpacked"):
        plain_body(message._replace(flags=flags, body=b"\x00" + body))
    assert packed_body(b"x", codes.ZLIB) == (b"x", 0), "what would not get smaller stays"


@pytest.mark.parametrize("kind", [codes.ZLIB, codes.ZSTD])
def test_bodies_that_would_be_endless(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_MOST_PLAIN", 999)
    body, flags = packed_body(bytes(1000), kind)
    (message,) = stored(Stored(0, 0, 0, 0, body, "t", {}, False, False, False).bytes())
    with pytest.raises(ValueError, match="over 999 bytes"):
        plain_body(message._replace(flags=flags))


def test_what_is_no_property() -> None:
    assert properties_of(b"a\x01b\x02nothing\x02c\x01\x02") == {"a": "b", "c": ""}
    for bad in ({"": "x"}, {"a\x01": "x"}, {"a": "x\x02"}):
        with pytest.raises(ValueError, match="control character"):
            property_text(bad)
    with pytest.raises(ValueError, match="more than 32767 bytes"):
        property_text({"a": "x" * 40_000})


def test_a_batch_has_each_body_with_its_properties() -> None:
    messages = [Outgoing(b"one", property_text({"a": "1"})), Outgoing(b"")]
    body = batch_body(messages)
    first = struct.pack(">iiiii", 29, 0, 0, 0, 3) + b"one" + struct.pack(">H", 4) + b"a\x011\x02"
    assert body == first + struct.pack(">iiiii", 22, 0, 0, 0, 0) + struct.pack(">H", 0)


@given(st.dictionaries(NAMES, NAMES), st.binary(max_size=50), st.booleans())
def test_requests_are_framed(fields: dict[str, str], body: bytes, one_way: bool) -> None:
    data = wire.request(11, 7, fields, body, one_way=one_way)
    head_length, length = wire.lengths(data[:8])
    head = json.loads(data[8 : 8 + head_length])
    assert (data[8 + head_length :], len(body)) == (body, length)
    assert (head["code"], head["opaque"], head["extFields"]) == (11, 7, fields)
    assert head["flag"] == (2 if one_way else 0)
    assert not wire.parsed(data[8 : 8 + head_length]).is_answer


@pytest.mark.parametrize(
    "sizes", [(4, 5), (-1, 0), (1 << 31) - 1, (100, 1 << 24 | 10), b"HTTP/1.1"], ids=str
)
def test_what_is_no_answer(sizes: tuple[int, int] | int | bytes) -> None:
    data = (
        sizes
        if isinstance(sizes, bytes)
        else struct.pack(">iI", *(sizes if isinstance(sizes, tuple) else (sizes, 0)))
    )
    with pytest.raises(ValueError, match="no answer of RocketMQ"):
        wire.lengths(data)


def test_requests_are_signed_over_the_values_in_the_order_of_their_names() -> None:
    signed = Account("me", "secret", "token").signed({"topic": "t", "a": "1"}, b"body")
    text = b"me" + b"token" + b"1" + b"t" + b"body"  # AccessKey, SecurityToken, a, topic
    digest = hmac.new(b"secret", text, hashlib.sha1).digest()
    assert signed.pop("Signature") == base64.b64encode(digest).decode()
    assert signed == {"topic": "t", "a": "1", "AccessKey": "me", "SecurityToken": "token"}
    assert Account().signed({"a": "1"}, b"") == {"a": "1"}
