"""Digests of texts, in hexadecimal."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa

from parser.types import DataType, char, varchar
from udf.arrays import RowError, per_distinct, row_errors
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import int_, takes, text
from udf.vector import Vector

Algorithm: TypeAlias = Callable[..., Any]


def _hex(algorithm: Algorithm, value: str) -> str:
    return str(algorithm(value.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest())


def _digest(algorithm: Algorithm, value: Values) -> Values:
    return per_distinct(lambda v: _hex(algorithm, v), pa.string(), value)


@function("MD5", signature=takes(text, result=char(32)))
def md5(ctx: KernelContext, value: Values) -> Values:
    """The MD5 digest."""
    return _digest(hashlib.md5, value)


@function("SHA1", signature=takes(text, result=char(40)))
def sha1(ctx: KernelContext, value: Values) -> Values:
    """The SHA-1 digest."""
    return _digest(hashlib.sha1, value)


@function("SHA224", signature=takes(text, result=char(56)))
def sha224(ctx: KernelContext, value: Values) -> Values:
    """The SHA-224 digest."""
    return _digest(hashlib.sha224, value)


@function("SHA256", signature=takes(text, result=char(64)))
def sha256(ctx: KernelContext, value: Values) -> Values:
    """The SHA-256 digest."""
    return _digest(hashlib.sha256, value)


@function("SHA384", signature=takes(text, result=char(96)))
def sha384(ctx: KernelContext, value: Values) -> Values:
    """The SHA-384 digest."""
    return _digest(hashlib.sha384, value)


@function("SHA512", signature=takes(text, result=char(128)))
def sha512(ctx: KernelContext, value: Values) -> Values:
    """The SHA-512 digest."""
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


@function("SHA2", signature=takes(text, int_, result=_sha2_result))
def sha2(ctx: KernelContext, value: Values, bits: Values) -> Vector:
    """SHA2(text, bits): the digest of the SHA-2 family with 224, 256, 384 or 512 bits. Error: another number."""
    return Vector(*row_errors(ctx.num_rows, _sha2, pa.string(), value, bits))
