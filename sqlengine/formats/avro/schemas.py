"""Avro schemas: their JSON, and the types that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

PRIMITIVES: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
# A schema with more types, each counted wherever it is used, is refused: one that names a type
# twice in a type that it names twice, and so on, would take for ever.
_MOST_TYPES: Final = 10_000
_DEEPEST: Final = 64
_LARGEST: Final = 2**31 - 1  # bytes of a fixed, which Avro's own libraries have as an int

Json = Mapping[str, object]


class BadSchema(Exception):
    """A schema that is none, or one that cannot be read; the text says why."""


@dataclass(frozen=True)
class AvroType:
    """A type of a schema. `kind`: Avro's name of it; `inner`: the types of the fields (`names`) of
    a record, the branches of a union, the elements of an array or the values of a map; `symbols` of
    an enum, `size` of a fixed (bytes). `least`: the fewest bytes that a value takes."""

    kind: str
    logical: str = ""
    name: str = ""
    names: tuple[str, ...] = ()
    inner: tuple[AvroType, ...] = ()
    symbols: tuple[str, ...] = ()
    size: int = 0
    scale: int = 0
    least: int = 1


def parse_schema(text: str | bytes) -> AvroType:
    """Returns the type that the JSON of a schema stands for. BadSchema for one that is none, that
    refers to itself, or that is too large."""
    try:
        return _Parser().parse(msgspec.json.decode(text), "", 0)
    except msgspec.DecodeError as error:
        raise BadSchema(f"the schema is no JSON: {error}") from None
    except RecursionError:
        raise BadSchema("the schema is nested too deeply") from None


@dataclass
class _Parser:
    """Resolves names as they come; None stands for a type that is not complete yet."""

    named: dict[str, AvroType | None] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    types: int = 0

    def parse(self, schema: object, space: str, depth: int) -> AvroType:
        self.types += 1
        if depth > _DEEPEST:
            raise BadSchema("the schema is nested too deeply")
        if self.types > _MOST_TYPES:
            raise BadSchema(f"the schema has more than {_MOST_TYPES} types")
        if isinstance(schema, str):
            return self._reference(schema, space)
        if isinstance(schema, list):
            branches = tuple(self.parse(s, space, depth + 1) for s in schema)
            return AvroType("union", inner=branches)
        if not isinstance(schema, dict) or "type" not in schema:
            raise BadSchema(f"{str(schema)[:60]!r} is no type")
        return self._object(schema, space, depth)

    def _reference(self, name: str, space: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name, least=_LEAST.get(name, 1))
        full = name if "." in name or not space else f"{space}.{name}"
        full = full if full in self.named else name
        if full not in self.named:
            raise BadSchema(f"the type '{name[:60]}' is not known")
        found = self.named[full]
        if found is None:
            raise BadSchema(f"the type '{name[:60]}' refers to itself, which is not supported")
        self.types += self.sizes[full]
        return found

    def _object(self, schema: Json, space: str, depth: int) -> AvroType:
        kind = schema["type"]
        match kind:
            case "array" | "map":
                inside = self.parse(
                    schema.get("items" if kind == "array" else "values"), space, depth + 1
                )
                if kind == "array" and not inside.least:
                    raise BadSchema("the elements of an array have no bytes")
                return AvroType(str(kind), inner=(inside,))
            case "record" | "error" | "enum" | "fixed":
                return self._named(schema, str(kind), space, depth)
            case str() if kind in PRIMITIVES:
                least, scale = _LEAST.get(kind, 1), _scale(schema)
                return AvroType(kind, _logical(schema), scale=scale, least=least)
        return self.parse(kind, space, depth + 1)

    def _named(self, schema: Json, kind: str, space: str, depth: int) -> AvroType:
        name = str(schema.get("name", ""))
        space = str(schema.get("namespace", space))
        full = name if "." in name or not space else f"{space}.{name}"
        space = full.rpartition(".")[0]
        self.named[full] = None
        before = self.types
        if kind == "enum":
            found = AvroType(kind, name=full, symbols=_texts(schema.get("symbols")))
        elif kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or not 0 <= size <= _LARGEST:
                why = f"is no number from 0 to {_LARGEST}"
                raise BadSchema(f"the size of the type '{full[:60]}' {why}")
            logical, scale = _logical(schema), _scale(schema)
            found = AvroType(kind, logical, full, size=size, scale=scale, least=size)
        else:
            found = self._record(schema, full, space, depth)
        self.named[full] = found
        self.sizes[full] = self.types - before
        return found

    def _record(self, schema: Json, full: str, space: str, depth: int) -> AvroType:
        fields = schema.get("fields")
        if not isinstance(fields, list) or not all(isinstance(f, dict) for f in fields):
            raise BadSchema(f"the record '{full[:60]}' has no fields")
        names = tuple(str(f.get("name")) for f in fields)
        inner = tuple(self.parse(f.get("type"), space, depth + 1) for f in fields)
        least = sum(t.least for t in inner)
        return AvroType("record", name=full, names=names, inner=inner, least=least)


_LEAST: Final = {"null": 0, "float": 4, "double": 8}


def _logical(schema: Json) -> str:
    return str(schema.get("logicalType", ""))


def _scale(schema: Json) -> int:
    scale = schema.get("scale", 0)
    if not isinstance(scale, int) or not 0 <= scale <= 38:
        raise BadSchema("the scale of a decimal is no number from 0 to 38")
    return scale


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise BadSchema("the symbols of an enum are no list")
    return tuple(map(str, values))
