"""Text as bytes and back: base 2, 16 and 64, character sets."""

from __future__ import annotations

import codecs
from base64 import b64encode
from binascii import Error as Base64Error
from binascii import a2b_base64

import pyarrow as pa

from parser.types import BYTES, STRING, DataType
from udf.arrays import RowError, per_distinct, quoted, row_by_row, row_errors
from udf.registry import KernelContext, Types, Values, function
from udf.signatures import (
    Custom,
    always_nullable,
    binary,
    gives,
    integer,
    takes,
    text,
    text_or_binary,
)
from udf.vector import Vector

_STRING, _BINARY = pa.string(), pa.binary()
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_HEX = frozenset("0123456789abcdefABCDEF")


def as_bytes(value: str | bytes) -> bytes:
    """UTF-8 of a text; bytes as they are."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def java_text(data: bytes, charset: str = "utf-8") -> str:
    """Bytes as text; what is no character becomes U+FFFD."""
    return data.decode(charset, "replace")


def _unsigned(value: int) -> int:
    return value % 2**64


@function("BIN", signature=takes(integer, result=STRING))
def bin_(ctx: KernelContext, value: Values) -> Values:
    """BIN(integer): the binary digits; a negative number as BIGINT in two's complement.

    >>> BIN(12)
    '1100'
    """
    return row_by_row(ctx.num_rows, lambda v: f"{_unsigned(v):b}", _STRING, value)


def _hex_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 1 and (types[0].is_integer or types[0].is_string) else None


@function("HEX", signature=Custom(_hex_types, gives(STRING), "an integer or a string"))
def hex_(ctx: KernelContext, value: Values) -> Values:
    """HEX(integer), HEX(text): hexadecimal digits in upper case, of the number (a negative one as BIGINT in two's
    complement) or of the text in UTF-8.

    >>> HEX('hi')
    '6869'
    >>> HEX(255)
    'FF'
    """
    if ctx.arg_types[0].is_string:
        return per_distinct(lambda v: as_bytes(v).hex().upper(), _STRING, value)
    return row_by_row(ctx.num_rows, lambda v: f"{_unsigned(v):X}", _STRING, value)


def _unhex(value: str) -> bytes | None:
    if not _HEX.issuperset(value):
        return None
    if len(value) % 2:
        return b"\0" + bytes.fromhex(value[1:])
    return bytes.fromhex(value)


@function("UNHEX", signature=takes(text, result=always_nullable(BYTES)))
def unhex(ctx: KernelContext, value: Values) -> Values:
    """UNHEX(text): the bytes that hexadecimal digits stand for; of an odd number of them the first one is lost, and a
    zero stands there, as in Flink. NULL for a text with anything else.

    >>> DECODE(UNHEX('6869'), 'UTF-8')
    'hi'
    """
    return per_distinct(_unhex, _BINARY, value)


@function("TO_BASE64", signature=takes(text_or_binary, result=STRING))
def to_base64(ctx: KernelContext, value: Values) -> Values:
    """TO_BASE64(text or bytes): in base 64, of a text in UTF-8.

    >>> TO_BASE64('hello')
    'aGVsbG8='
    """
    return per_distinct(lambda v: b64encode(as_bytes(v)).decode("ascii"), _STRING, value)


def _from_base64(value: str | bytes) -> str:
    written = value if isinstance(value, str) else value.decode("latin-1")
    digits = written.rstrip("=")
    padding = len(written) - len(digits)
    if not _ALPHABET.issuperset(digits) or len(digits) % 4 == 1 or (padding and len(written) % 4) or padding > 2:
        raise RowError(f"{quoted([written])} is not base 64")
    try:
        return java_text(a2b_base64(digits + "=" * (-len(digits) % 4)))
    except Base64Error:
        raise RowError(f"{quoted([written])} is not base 64") from None


@function("FROM_BASE64", signature=takes(text_or_binary, result=STRING))
def from_base64(ctx: KernelContext, value: Values) -> Vector:
    """FROM_BASE64(text): the text in UTF-8 that base 64 stands for; bytes that are no character become U+FFFD. Error: a
    text that is not base 64.

    >>> FROM_BASE64('aGVsbG8=')
    'hello'
    """
    return Vector(*row_errors(ctx.num_rows, _from_base64, _STRING, value))


def _codec(charset: str) -> str:
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise RowError(f"unknown character set {quoted([charset])}") from None


def _encode(value: str, charset: str) -> bytes:
    codec = _codec(charset)
    if codec == "utf-16":
        return b"\xfe\xff" + value.encode("utf-16-be", "replace") if value else b""
    return value.encode(codec, "replace")


def _decode(value: bytes, charset: str) -> str:
    codec = _codec(charset)
    if codec == "utf-16" and not value.startswith((b"\xff\xfe", b"\xfe\xff")):
        codec = "utf-16-be"
    return java_text(value, codec)


@function("ENCODE", signature=takes(text, text, result=BYTES))
def encode(ctx: KernelContext, value: Values, charset: Values) -> Vector:
    """ENCODE(text, charset): the bytes of a text in a character set such as 'UTF-8', 'ISO-8859-1' or 'UTF-16'; a
    character that it lacks becomes '?'. Error: an unknown character set.

    >>> HEX(DECODE(ENCODE('hi', 'UTF-16BE'), 'ISO-8859-1'))
    '00680069'
    """
    return Vector(*row_errors(ctx.num_rows, _encode, _BINARY, value, charset))


@function("DECODE", signature=takes(binary, text, result=STRING))
def decode(ctx: KernelContext, value: Values, charset: Values) -> Vector:
    """DECODE(bytes, charset): the text of bytes in a character set; what is no character becomes U+FFFD. Error: an
    unknown character set.

    >>> DECODE(x'6869', 'UTF-8')
    'hi'
    """
    return Vector(*row_errors(ctx.num_rows, _decode, _STRING, value, charset))
