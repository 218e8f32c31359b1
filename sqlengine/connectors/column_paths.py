"""The names of columns and their parts in options: `tags`, `tags.element`."""

from __future__ import annotations

from collections.abc import Iterator

from parser.types import DataType, Root


def parts_of(kind: DataType) -> tuple[tuple[str, DataType], ...]:
    """Returns the parts of a value with their types: fields of a ROW, the `element` of an ARRAY
    or MULTISET, `key` and `value` of a MAP."""
    names = {Root.ROW: kind.names, Root.MAP: ("key", "value")}.get(kind.root, ("element",))
    return tuple(zip(names, kind.children, strict=True)) if kind.children else ()


def part_names(name: str, kind: DataType) -> Iterator[str]:
    """Yields the column's name, and those of its parts at any depth."""
    yield name
    for part, child in parts_of(kind):
        yield from part_names(f"{name}.{part}", child)
