"""Text as bytes and back: base 2, 16 and 64, character sets."""

from __future__ import annotations

import codecs
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64

import numpy as np
import pyarrow as pa

from parser.types import BYTES, STRING, DataType
from udf.arrays.arrays import RowError, per_distinct, quoted, row_errors, valid
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
    text_or_null,
)
from udf.text.bytes import bytes_of, sliced, texts_of, with_bytes
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


_HEX_PAIRS = np.array([list(f"{i:02X}".encode()) for i in range(256)], np.uint8)


def _written(value: Values, num_rows: int, bits: int) -> pa.Array:
    """Integers as 64 bits by digits of so many bits (1 or 4), without zeros at the beginning."""
    given = pa.repeat(value, num_rows) if isinstance(value, pa.Scalar) else value
    numbers = given.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    parts = np.ascontiguousarray(numbers.astype(">i8")).view(np.uint8).reshape(-1, 8)
    if len(numbers) and numbers.min() >= 0:  # bytes that are 0 in all numbers are not written
        parts = parts[:, 8 - max(1, (int(numbers.max()).bit_length() + 7) // 8) :]
    digits = (
        np.unpackbits(parts, axis=1) + np.uint8(48)
        if bits == 1
        else _HEX_PAIRS[parts].reshape(len(parts), -1)
    )
    width = digits.shape[1]
    zeros = np.minimum((digits != 48).argmax(axis=1), width - 1)
    zeros[numbers == 0] = width - 1
    starts = np.arange(len(numbers)) * width
    return sliced(
        digits.reshape(-1), starts + zeros, starts + width, valid(given, len(given)), _STRING
    )


@function("BIN", signature=takes(integer, result=STRING))
def bin_(ctx: KernelContext, value: Values) -> Values:
    """BIN(integer): the binary digits; of a negative number, its two's complement as BIGINT.

    >>> BIN(12)
    '1100'
    """
    return _written(value, ctx.num_rows, bits=1)


def _hex_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 1 and (types[0].is_integer or types[0].is_string) else None


@function("HEX", signature=Custom(_hex_types, gives(STRING), "an integer or a string"))
def hex_(ctx: KernelContext, value: Values) -> Values:
    """HEX(integer), HEX(text): hexadecimal digits in upper case, of the number (a negative one as
    BIGINT in two's complement) or of the text in UTF-8.

    >>> HEX('hi')
    '6869'
    >>> HEX(255)
    'FF'
    """
    if ctx.arg_types[0].is_string:
        values = pa.repeat(value, ctx.num_rows) if isinstance(value, pa.Scalar) else value
        pairs = np.take(_HEX_PAIRS.view(np.uint16).reshape(-1), bytes_of(values)[1])
        return with_bytes(values, pairs.view(np.uint8), 2, _STRING)
    return _written(value, ctx.num_rows, bits=4)


def _unhexed(value: pa.Array) -> pa.Array | None:
    """Decodes all texts at once, if each has an even number of hexadecimal digits; else None."""
    offsets, data = bytes_of(value)
    digits = _HEX_DIGITS[data]
    if (digits > 15).any() or (offsets % 2).any():
        return None
    return texts_of(
        offsets // 2, digits[::2] * np.uint8(16) + digits[1::2], valid(value, len(value)), _BINARY
    )


_HEX_DIGITS = np.array(
    [int(chr(c), 16) if chr(c) in "0123456789abcdefABCDEF" else 16 for c in range(256)], np.uint8
)


def _unhex(value: str) -> bytes | None:
    if not _HEX.issuperset(value):
        return None
    if len(value) % 2:
        return b"\0" + bytes.fromhex(value[1:])
    return bytes.fromhex(value)


@function("UNHEX", signature=takes(text_or_null, result=always_nullable(BYTES)))
def unhex(ctx: KernelContext, value: Values) -> Values:
    """UNHEX(text): the bytes of hexadecimal digits; of an odd number of digits the first is
    replaced by a zero, as in Flink. NULL for any other text.

    >>> DECODE(UNHEX('6869'), 'UTF-8')
    'hi'
    """
    fast = _unhexed(value) if isinstance(value, pa.Array) else None
    return per_distinct(_unhex, _BINARY, value) if fast is None else fast


@function("TO_BASE64", signature=takes(text_or_binary, result=STRING))
def to_base64(ctx: KernelContext, value: Values) -> Values:
    """TO_BASE64(text or bytes): in base 64, of a text in UTF-8.

    >>> TO_BASE64('hello')
    'aGVsbG8='
    """
    if isinstance(value, pa.Scalar):
        value = pa.repeat(value, ctx.num_rows)
    encoded = [
        None if v is None else b2a_base64(v, newline=False) for v in value.cast(_BINARY).to_pylist()
    ]
    return pa.array(encoded, _BINARY).cast(_STRING)


def _from_base64(value: str | bytes) -> str:
    written = value if isinstance(value, str) else value.decode("latin-1")
    digits = written.rstrip("=")
    padding = len(written) - len(digits)
    if (
        not _ALPHABET.issuperset(digits)
        or len(digits) % 4 == 1
        or (padding and len(written) % 4)
        or padding > 2
    ):
        raise RowError(f"{quoted([written])} is not base 64")
    try:
        return java_text(a2b_base64(digits + "=" * (-len(digits) % 4)))
    except Base64Error:
        raise RowError(f"{quoted([written])} is not base 64") from None


@function("FROM_BASE64", signature=takes(text_or_binary, result=STRING))
def from_base64(ctx: KernelContext, value: Values) -> Vector:
    """FROM_BASE64(text): the text that Base64 encodes, in UTF-8; invalid bytes become U+FFFD.
    Error: a text that is not Base64.

    >>> FROM_BASE64('aGVsbG8=')
    'hello'
    """
    fast = _from_plain_base64(value) if isinstance(value, pa.Array) else None
    return (
        Vector(*row_errors(ctx.num_rows, _from_base64, _STRING, value))
        if fast is None
        else Vector(fast)
    )


def _from_plain_base64(value: pa.Array) -> pa.Array | None:
    """Decodes all texts at once, if each is as TO_BASE64 writes it; else None."""
    try:
        decoded = [
            None if v is None else a2b_base64(v, strict_mode=True)
            for v in value.cast(_BINARY).to_pylist()
        ]
        return pa.array(decoded, _BINARY).cast(_STRING)
    except (Base64Error, pa.ArrowInvalid):
        return None


def _codec(charset: str) -> str:
    try:
        return codecs.lookup(charset).name
    except LookupError:
        raise RowError(f"unknown character set {quoted([charset])}") from None


def _is_utf8(charset: Values) -> bool:
    return isinstance(charset, pa.Scalar) and str(charset.as_py()).lower() in ("utf-8", "utf8")


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
    """ENCODE(text, charset): the bytes of a text in a character set such as 'UTF-8', 'ISO-8859-1'
    or 'UTF-16'; a character that it lacks becomes '?'. Error: an unknown character set.

    >>> HEX(DECODE(ENCODE('hi', 'UTF-16BE'), 'ISO-8859-1'))
    '00680069'
    """
    if _is_utf8(charset) and isinstance(value, pa.Array):
        return Vector(value.cast(_BINARY))
    return Vector(*row_errors(ctx.num_rows, _encode, _BINARY, value, charset))


@function("DECODE", signature=takes(binary, text, result=STRING))
def decode(ctx: KernelContext, value: Values, charset: Values) -> Vector:
    """DECODE(bytes, charset): the text of bytes in a character set; invalid bytes become U+FFFD.
    Error: an unknown character set.

    >>> DECODE(x'6869', 'UTF-8')
    'hi'
    """
    if _is_utf8(charset) and isinstance(value, pa.Array):
        try:
            return Vector(value.cast(_STRING))
        except pa.ArrowInvalid:  # some bytes are no text
            pass
    return Vector(*row_errors(ctx.num_rows, _decode, _STRING, value, charset))
