"""Signatures of array functions: an array, an element that it could hold, a widened array."""

from __future__ import annotations

from parser.types import DataType, Root, array
from udf.arrays.lists import is_array
from udf.casts.coercion import can_assign
from udf.registry import Literals, Types
from udf.signatures import Custom, nullable


def one_array(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 1 and is_array(types[0]) else None


def array_and_element(types: Types) -> tuple[DataType, ...] | None:
    """An array, and an element that it could hold; an untyped NULL is one."""
    if len(types) != 2 or not is_array(types[0]):
        return None
    kind, given = types
    element = kind.children[0]
    fits = given.root is Root.NULL or given.same_as(element) or can_assign(given, element)
    return (kind, element.with_nullable(given.nullable)) if fits else None


def as_array(types: Types, literals: Literals) -> DataType:
    return types[0].plain.with_nullable(types[0].nullable)


def grown(types: Types, literals: Literals) -> DataType:
    """The array's type with room for the element, which may be NULL."""
    element = types[0].children[0]
    widened = array(element.with_nullable(element.nullable or types[1].nullable))
    return widened.with_nullable(nullable(types))


ONE_ARRAY = Custom(one_array, as_array, "an array")


def ordered(t: DataType) -> bool:
    return not t.children and t.root not in (Root.NULL, Root.BOOLEAN)
