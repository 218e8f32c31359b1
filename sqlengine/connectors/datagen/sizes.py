"""Sizes of generated values: what they take while they are made."""

from __future__ import annotations

from typing import Final

from parser.types import Root
from sqlengine.connectors.datagen.values import Field

_NUMBER: Final = 8
# Made one at a time: they take as long as so many digits of a text.
_DECIMAL: Final = 64


def size_of(field: Field) -> int:
    """Returns the bytes of the longest value that a column may have: the digits of its texts, all
    entries of its arrays and maps with what is in them. They stand for time, too."""
    root = field.type.root
    if field.type.is_string or field.type.is_binary:
        return field.characters
    parts = sum(size_of(field.part(i)) for i in range(len(field.type.children)))
    if root is Root.ROW:
        return parts
    if root in (Root.ARRAY, Root.MAP, Root.MULTISET):
        return field.entries * parts
    return _DECIMAL if root is Root.DECIMAL else _NUMBER
