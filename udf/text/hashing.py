"""Digests of texts and bytes, in hexadecimal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from parser.types import DataType, char, varchar
from udf.arrays.arrays import RowError, per_distinct, repeats, row_errors
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import int_, takes, text_or_binary
from udf.text.encodings import as_bytes
from udf.vector import Vector

Algorithm: TypeAlias = Callable[..., Any]


def _hex(algorithm: Algorithm, value: str | bytes) -> str:
    return str(algorithm(as_bytes(value), usedforsecurity=False).hexdigest())


def _digest(algorithm: Algorithm, value: Values) -> Values:
    if isinstance(value, pa.Scalar) or repeats(value):
        return per_distinct(lambda v: _hex(algorithm, v), pa.string(), value)
    data = value.cast(pa.binary()).to_pylist()
    return pa.array(
        [None if v is None else algorithm(v, usedforsecurity=False).hexdigest() for v in data],
        pa.string(),
    )


@function("MD5", signature=takes(text_or_binary, result=char(32)))
def md5(ctx: KernelContext, value: Values) -> Values:
    """MD5(text or bytes): the MD5 digest in hexadecimal, of a text in UTF-8.

    >>> MD5('a')
    '0cc175b9c0f1b6a831c399e269772661'
    """
    return _digest(hashlib.md5, value)


@function("SHA1", signature=takes(text_or_binary, result=char(40)))
def sha1(ctx: KernelContext, value: Values) -> Values:
    """SHA1(text or bytes): the SHA-1 digest in hexadecimal, of a text in UTF-8.

    >>> SHA1('a')
    '86f7e437faa5a7fce15d1ddcb9eaeaea377667b8'
    """
    return _digest(hashlib.sha1, value)


@function("SHA224", signature=takes(text_or_binary, result=char(56)))
def sha224(ctx: KernelContext, value: Values) -> Values:
    """SHA224(text or bytes): the SHA-224 digest in hexadecimal, of a text in UTF-8.

    >>> SHA224('a')
    'abd37534c7d9a2efb9465de931cd7055ffdb8879563ae98078d6d6d5'
    """
    return _digest(hashlib.sha224, value)


@function("SHA256", signature=takes(text_or_binary, result=char(64)))
def sha256(ctx: KernelContext, value: Values) -> Values:
    """SHA256(text or bytes): the SHA-256 digest in hexadecimal, of a text in UTF-8.

    >>> SHA256('a')
    'ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb'
    """
    return _digest(hashlib.sha256, value)


@function("SHA384", signature=takes(text_or_binary, result=char(96)))
def sha384(ctx: KernelContext, value: Values) -> Values:
    """SHA384(text or bytes): the SHA-384 digest in hexadecimal, of a text in UTF-8.

    >>> LEFT(SHA384('a'), 16)
    '54a59b9f22b0b808'
    """
    return _digest(hashlib.sha384, value)


@function("SHA512", signature=takes(text_or_binary, result=char(128)))
def sha512(ctx: KernelContext, value: Values) -> Values:
    """SHA512(text or bytes): the SHA-512 digest in hexadecimal, of a text in UTF-8.

    >>> LEFT(SHA512('a'), 16)
    '1f40fc92da241694'
    """
    return _digest(hashlib.sha512, value)


_BITS: dict[int, Algorithm] = {
    224: hashlib.sha224,
    256: hashlib.sha256,
    384: hashlib.sha384,
    512: hashlib.sha512,
}


def _sha2(value: str, bits: int) -> str:
    if bits not in _BITS:
        raise RowError(f"SHA2 has no digest of {bits} bits")
    return _hex(_BITS[bits], value)


def _sha2_result(types: Types, literals: Literals) -> DataType:
    return varchar(128).with_nullable(any(t.nullable for t in types))


@function("SHA2", signature=takes(text_or_binary, int_, result=_sha2_result))
def sha2(ctx: KernelContext, value: Values, bits: Values) -> Vector:
    """SHA2(text or bytes, bits): the digest of the SHA-2 family with 224, 256, 384 or 512 bits.
    Error: another number.

    >>> SHA2('a', 224)
    'abd37534c7d9a2efb9465de931cd7055ffdb8879563ae98078d6d6d5'
    """
    if isinstance(bits, pa.Scalar) and bits.as_py() in _BITS:
        return Vector(_digest(_BITS[bits.as_py()], value))
    return Vector(*row_errors(ctx.num_rows, _sha2, pa.string(), value, bits))
