"""Plans as bytes and back: for the cache on disk, never for exchange between versions.

A value is a msgpack list with its kind in front; an object that occurs again is a list of its
number alone, so that shared objects are shared again. Tables of the catalog are written as their
names: the reader has the same catalog."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum, Flag
from functools import cache
from typing import TypeAlias, cast, get_args, get_origin, get_type_hints

import msgspec

from planner.catalog import Catalog, Identifier, Table
from planner.logical import LogicalPlan, Sink

Packed: TypeAlias = None | bool | int | float | str | bytes | list["Packed"]
Classes: TypeAlias = Mapping[str, type]


@cache
def classes() -> Classes:
    """Every dataclass and enumeration that a plan can hold, by name: those that annotations reach
    from a sink and from all operations."""
    found: dict[str, type] = {}
    waiting: list[object] = [Sink, *_operations(LogicalPlan)]
    while waiting:
        hint = waiting.pop()
        if get_origin(hint) is not None or get_args(hint):
            waiting += get_args(hint)
        elif isinstance(hint, type) and hint.__name__ not in found:
            if issubclass(hint, Enum):
                found[hint.__name__] = hint
            elif dataclasses.is_dataclass(hint):
                found[hint.__name__] = hint
                waiting += [*get_type_hints(hint).values(), *hint.__subclasses__()]
    return found


def _operations(base: type[LogicalPlan]) -> list[type[LogicalPlan]]:
    """The class and all its subclasses."""
    return [base, *(k for direct in base.__subclasses__() for k in _operations(direct))]


@cache
def _fields(kind: str) -> tuple[str, ...]:
    """The names of a class's fields: the positional ones, then those by keyword only."""
    fields = [f for f in dataclasses.fields(classes()[kind]) if f.init]
    return tuple(f.name for by_name in (False, True) for f in fields if bool(f.kw_only) is by_name)


@cache
def _by_name(kind: str) -> tuple[str, ...]:
    """The names of a class's fields that are given by keyword only."""
    return tuple(f.name for f in dataclasses.fields(classes()[kind]) if f.init and f.kw_only)


class Encoder:
    """Encodes one value. `tables`: the tables of the catalog that the value refers to, known when
    it is encoded."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._numbers: dict[int, int] = {}
        self.tables: set[Identifier] = set()

    def encode(self, value: object) -> bytes:
        """The value as bytes. TypeError for an object that no plan can hold, RecursionError for one
        that is nested too deep."""
        return msgspec.msgpack.encode(self._pack(value))

    def _pack(self, value: object) -> Packed:
        if value is None or isinstance(value, bool | float | str | bytes):
            return value
        if isinstance(value, int):
            return value if -(1 << 63) <= value < 1 << 63 else ["i", str(value)]
        if isinstance(value, tuple):
            return ["t", *map(self._pack, value)]
        if isinstance(value, Decimal):
            return ["d", str(value)]
        if isinstance(value, Flag):  # several of them have no name
            return ["e", type(value).__name__, value.value]
        if isinstance(value, Enum):
            return ["e", type(value).__name__, value.name]
        if isinstance(value, Mapping):
            return ["m", *(self._pack(part) for item in value.items() for part in item)]
        return self._object(value)

    def _object(self, value: object) -> Packed:
        number = self._numbers.get(id(value))
        if number is not None:
            return [number]
        kind = type(value)
        if classes().get(kind.__name__) is not kind:
            raise TypeError(f"{kind.__name__} cannot stand in a plan")
        if isinstance(value, Table) and self._catalog.get(value.name) == value:
            self.tables.add(value.name)
            packed: Packed = ["@", *value.name]
        else:
            packed = [
                kind.__name__,
                *(self._pack(getattr(value, name)) for name in _fields(kind.__name__)),
            ]
        self._numbers[id(value)] = len(self._numbers)
        return packed


class Decoder:
    """Decodes one value over the catalog that its tables come from."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._objects: list[object] = []

    def decode(self, data: bytes) -> object:
        """The value of `Encoder.encode`. LookupError, TypeError or ValueError for other bytes."""
        return self._unpack(cast(Packed, msgspec.msgpack.decode(data)))

    def _unpack(self, packed: Packed) -> object:
        if not isinstance(packed, list):
            return packed
        head = packed[0]
        if isinstance(head, int):
            return self._objects[head]
        known = _KINDS.get(cast(str, head))
        if known is not None:
            return known(self, packed)
        name = cast(str, head)
        values = [self._unpack(p) if isinstance(p, list) else p for p in packed[1:]]
        named = _by_name(name)
        plain = len(values) - len(named)
        made = classes()[name](*values[:plain], **dict(zip(named, values[plain:], strict=True)))
        self._objects.append(made)
        return made

    def _table(self, packed: list[Packed]) -> object:
        table = self._catalog.get(cast(Identifier, tuple(packed[1:])))
        self._objects.append(table)
        return table

    def _tuple(self, packed: list[Packed]) -> object:
        return tuple([self._unpack(p) if isinstance(p, list) else p for p in packed[1:]])

    def _mapping(self, packed: list[Packed]) -> object:
        parts = [self._unpack(p) for p in packed[1:]]
        return dict(zip(parts[::2], parts[1::2], strict=True))

    def _enum(self, packed: list[Packed]) -> object:
        kind, value = cast(type[Enum], classes()[cast(str, packed[1])]), packed[2]
        return kind[value] if isinstance(value, str) else kind(value)


_KINDS: Mapping[str, Callable[[Decoder, list[Packed]], object]] = {
    "t": Decoder._tuple,
    "m": Decoder._mapping,
    "e": Decoder._enum,
    "@": Decoder._table,
    "i": lambda _, packed: int(cast(str, packed[1])),
    "d": lambda _, packed: Decimal(cast(str, packed[1])),
}
