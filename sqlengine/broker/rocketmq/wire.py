"""Requests and answers as they are on the wire.

length of all that follows · kind of header (1 byte) and its length (3) · header (JSON) · body"""

from __future__ import annotations

import base64
import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

SIZES: Final = struct.Struct(">iI")
_LENGTH: Final = 0xFFFFFF
_ANSWER, _ONE_WAY = 1, 2
# A version of the protocol, whose servers write JSON that others can read.
_VERSION: Final = 477
_MOST: Final = 1 << 30


class Head(msgspec.Struct, rename={"fields": "extFields"}):
    """The header of a request or an answer. `opaque`: the number of the request; `code`: what is
    asked for, or how it went."""

    code: int
    opaque: int
    flag: int = 0
    remark: str | None = None
    fields: dict[str, str] | None = None
    language: str = "PYTHON"
    version: int = _VERSION
    kind: str = msgspec.field(default="JSON", name="serializeTypeCurrentRPC")

    @property
    def is_answer(self) -> bool:
        return bool(self.flag & _ANSWER)


@dataclass(frozen=True)
class Answer:
    """The answer to a request. `code`: see `codes`."""

    code: int
    remark: str
    fields: Mapping[str, str]
    body: bytes

    def number(self, field: str) -> int:
        """Returns a whole number that the answer has."""
        return int(self.fields[field])


@dataclass(frozen=True)
class Account:
    """The account of who asks: without an access key nobody in particular."""

    access_key: str = ""
    secret_key: str = ""
    token: str = ""

    def signed(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Returns the fields of a request with its signature: HMAC-SHA1 over their values, in the
        order of their names, and the body."""
        named = dict(fields)
        if not self.access_key:
            return named
        named["AccessKey"] = self.access_key
        if self.token:
            named["SecurityToken"] = self.token
        text = "".join(named[name] for name in sorted(named)).encode()
        digest = hmac.digest(self.secret_key.encode(), text + body, "sha1")
        named["Signature"] = base64.b64encode(digest).decode()
        return named


def request(
    code: int, opaque: int, fields: Mapping[str, str], body: bytes = b"", *, one_way: bool = False
) -> bytes:
    """Returns a request; `one_way`: nobody waits for an answer."""
    flag = _ONE_WAY if one_way else 0
    head = msgspec.json.encode(Head(code, opaque, flag, fields=dict(fields)))
    return SIZES.pack(4 + len(head) + len(body), len(head)) + head + body


def lengths(sizes: bytes) -> tuple[int, int]:
    """Returns the lengths of header and body, of the first 8 bytes. ValueError where they cannot
    be."""
    total, head = SIZES.unpack(sizes)
    length = head & _LENGTH
    if head >> 24 or not 4 + length <= total <= _MOST:
        raise ValueError("what came is no answer of RocketMQ")
    return length, total - 4 - length


_heads: Final = msgspec.json.Decoder(Head)


def parsed(head: bytes) -> Head:
    """Returns a header. ValueError where it is none."""
    try:
        return _heads.decode(head)
    except msgspec.MsgspecError:
        raise ValueError("what came is no answer of RocketMQ") from None
