"""Avro's JSON form of records: a value of a union stands in an object with the name of its type,
bytes are texts of their codes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from io import BytesIO
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from sqlengine.batch import Batch
from sqlengine.formats.avro.decoder import BadDatum, BinaryDecoder, plain_schema, read_datum
from sqlengine.formats.avro.encoder import BinaryEncoder
from sqlengine.formats.avro.schemas import AvroType, parse_schema
from sqlengine.formats.base import Decoded

_INTEGERS: Final = ("int", "long")
_FLOATS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class JsonDecoder:
    """Reads records in the JSON form."""

    def __init__(self, inner: BinaryDecoder) -> None:
        self._inner = inner

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`."""
        return self._inner.decode_each(records.to_pylist(), self._read)

    def _read(self, record: bytes) -> object:
        try:
            return _unwrapped(msgspec.json.decode(record), self._inner.written)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadDatum(f"it is no JSON: {error}") from None
        except RecursionError:
            raise BadDatum("it is nested too deeply") from None


class JsonEncoder:
    """Writes records in the JSON form."""

    def __init__(self, inner: BinaryEncoder, text: str) -> None:
        self._inner, self._written, self._plain = inner, parse_schema(text), plain_schema(text)

    def encode(self, batch: Batch) -> pa.Array:
        """See `Encoder`."""
        data = self._inner.encode(batch).to_pylist()
        values = (read_datum(BytesIO(d), self._plain) for d in data)
        texts = [msgspec.json.encode(_wrapped(v, self._written)) for v in values]
        return pa.array(texts, pa.binary())


def _unwrapped(value: object, kind: AvroType) -> object:
    """Returns a value as fastavro has it. BadDatum where it is not of the type."""
    match kind.kind, value:
        case "union", None if any(b.kind == "null" for b in kind.inner):
            return None
        case "union", dict() if len(value) == 1:
            ((name, inner),) = value.items()
            for branch in kind.inner:
                if name in (branch.name, branch.kind):
                    return _unwrapped(inner, branch)
        case "record", dict():
            return _record(value, kind)
        case "array", list():
            return [_unwrapped(v, kind.inner[0]) for v in value]
        case "map", dict():
            return {k: _unwrapped(v, kind.inner[0]) for k, v in value.items()}
        case _, _ if _is_simple(value, kind):
            return _simple(value, kind)
    raise BadDatum(f"{str(value)[:60]!r} is no {kind.kind}")


def _record(value: Mapping[str, object], kind: AvroType) -> object:
    missing = [name for name in kind.names if name not in value]
    if missing:
        raise BadDatum(f"the field '{missing[0]}' is missing")
    fields = zip(kind.names, kind.inner, strict=True)
    return {name: _unwrapped(value[name], inner) for name, inner in fields}


def _is_simple(value: object, kind: AvroType) -> bool:
    match kind.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if kind.kind == "int" else 63
            return _is_number(value, int) and -(1 << bits) <= _number(value) < 1 << bits
        case "float" | "double":
            return (_is_number(value, int) or _is_number(value, float)) or (
                isinstance(value, str) and value in _FLOATS
            )
        case "enum":
            return value in kind.symbols
        case "fixed":
            return isinstance(value, str) and len(value) == kind.size
    return isinstance(value, str) and kind.kind in ("string", "bytes")


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _simple(value: object, kind: AvroType) -> object:
    if not isinstance(value, str):
        return value
    if kind.kind in ("float", "double"):
        return _FLOATS[value]
    if kind.kind not in ("bytes", "fixed"):
        return value
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise BadDatum("bytes have a sign that is none of 256") from None


def _wrapped(value: object, kind: AvroType) -> object:
    """Returns what JSON has for a value of fastavro."""
    match kind.kind, value:
        case "union", None:
            return None
        case "union", _:
            (branch,) = [b for b in kind.inner if b.kind != "null"]
            return {branch.name or branch.kind: _wrapped(value, branch)}
        case "record", dict():
            fields = zip(kind.names, kind.inner, strict=True)
            return {name: _wrapped(value[name], inner) for name, inner in fields}
        case "array", list():
            return [_wrapped(v, kind.inner[0]) for v in value]
        case "map", dict():
            return {k: _wrapped(v, kind.inner[0]) for k, v in value.items()}
        case _, bytes():
            return value.decode("latin-1")
        case _, float() if not math.isfinite(value):
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        case "float", float():
            return float(str(np.float32(value)))  # by its own digits, not those of a double
    return value
