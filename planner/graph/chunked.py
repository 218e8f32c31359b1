"""A mapping that is a value, and whose versions share all but what tells them apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload
from zlib import crc32

V = TypeVar("V")
D = TypeVar("D")

# A change copies the table of chunks and the chunks that it touches: with so many, both are short
# for 100 to 100,000 keys.
_CHUNKS = 512
# Shared, so that what two mappings lack is the same object.
_NOTHING: tuple[dict[str, Any], ...] = ({},) * _CHUNKS


class Chunked(Mapping[str, V]):
    """An immutable mapping in chunks. What `changed` makes shares the chunks that stay: a change
    costs what it changes, and so does the `difference` of two versions. Its order means nothing."""

    __slots__ = ("_chunks", "_size")

    def __init__(self, items: Mapping[str, V] | None = None) -> None:
        self._chunks: tuple[dict[str, V], ...] = _NOTHING
        self._size = 0
        if items:
            self._chunks = self._with(items, ())
            self._size = len(items)

    def changed(self, put: Mapping[str, V], gone: Iterable[str] = ()) -> Chunked[V]:
        """Without the keys `gone` (those that it has) and with the values of `put`."""
        if not put and not gone:
            return self
        made: Chunked[V] = Chunked()
        made._chunks = self._with(put, gone)
        made._size = sum(map(len, made._chunks))
        return made

    def difference(self, other: Chunked[V]) -> set[str]:
        """Keys that only one of them has, or that have another object in each."""
        found: set[str] = set()
        for mine, theirs in zip(self._chunks, other._chunks, strict=True):
            if mine is not theirs:
                found |= {
                    key
                    for key, value in mine.items()
                    if key not in theirs or theirs[key] is not value
                }
                found |= theirs.keys() - mine.keys()
        return found

    def _with(self, put: Mapping[str, V], gone: Iterable[str]) -> tuple[dict[str, V], ...]:
        chunks = list(self._chunks)
        own: set[int] = set()

        def chunk_of(key: str) -> dict[str, V]:
            place = _place(key)
            if place not in own:
                own.add(place)
                chunks[place] = chunks[place].copy()
            return chunks[place]

        for key in gone:
            chunk_of(key).pop(key, None)
        for key, value in put.items():
            chunk_of(key)[key] = value
        return tuple(chunks)

    def __getitem__(self, key: str) -> V:
        return self._chunks[_place(key)][key]

    @overload
    def get(self, key: str, /) -> V | None: ...
    @overload
    def get(self, key: str, default: V | D, /) -> V | D: ...
    def get(self, key: str, default: V | D | None = None, /) -> V | D | None:
        return self._chunks[_place(key)].get(key, default)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self._chunks[_place(key)]

    def __iter__(self) -> Iterator[str]:
        for chunk in self._chunks:
            yield from chunk

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Chunked):
            return self._chunks == other._chunks
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as a dictionary

    def __repr__(self) -> str:
        return f"Chunked({dict(self)!r})"


def _place(key: str) -> int:
    return crc32(key.encode("utf-8", "surrogatepass")) % _CHUNKS
