"""A persistent mapping: versions are values that share all entries in which they do not differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload
from zlib import crc32

V = TypeVar("V")
D = TypeVar("D")

# A change copies the table of chunks and the chunks that it touches: with this number of them both
# are short for 100 to 100,000 keys.
_CHUNKS = 512
# Shared, so that chunks which are empty in two mappings are one object.
_NOTHING: tuple[dict[str, Any], ...] = ({},) * _CHUNKS


class Chunked(Mapping[str, V]):
    """An immutable mapping in chunks, in no order.

    A mapping made by `changed` shares the chunks that stay: the cost of a change follows its size,
    and so does that of the `difference` of two versions."""

    __slots__ = ("_chunks", "_size")

    def __init__(self, items: Mapping[str, V] | None = None) -> None:
        self._chunks: tuple[dict[str, V], ...] = _NOTHING
        self._size = 0
        if items:
            self._chunks = self._with(items, ())
            self._size = len(items)

    def changed(self, put: Mapping[str, V], gone: Iterable[str] = ()) -> Chunked[V]:
        """The mapping without the keys `gone` (absent ones are ignored) and with the values of
        `put`."""
        if not put and not gone:
            return self
        made: Chunked[V] = Chunked()
        made._chunks = self._with(put, gone)
        made._size = sum(map(len, made._chunks))
        return made

    def difference(self, other: Chunked[V]) -> set[str]:
        """The keys that only one of two mappings has, or that have another object in each."""
        keys: set[str] = set()
        for mine, theirs in zip(self._chunks, other._chunks, strict=True):
            # Shared chunks are one object, and cannot differ.
            if mine is not theirs:
                keys |= {k for k, v in mine.items() if k not in theirs or theirs[k] is not v}
                keys |= theirs.keys() - mine.keys()
        return keys

    def watched(self, names: set[str]) -> Chunked[V]:
        """Returns an equal mapping which notes the keys that it is asked for in `names`."""
        made: _Watched[V] = _Watched()
        made._chunks, made._size, made._names = self._chunks, self._size, names
        return made

    def _with(self, put: Mapping[str, V], gone: Iterable[str]) -> tuple[dict[str, V], ...]:
        chunks = list(self._chunks)
        own: set[int] = set()

        def chunk_of(key: str) -> dict[str, V]:
            place = _place(key)
            # Copied at its first change only; `own` marks the copies.
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


class _Watched(Chunked[V]):
    __slots__ = ("_names",)

    _names: set[str]

    def __getitem__(self, key: str) -> V:
        self._names.add(key)
        return super().__getitem__(key)

    @overload
    def get(self, key: str, /) -> V | None: ...
    @overload
    def get(self, key: str, default: V | D, /) -> V | D: ...
    def get(self, key: str, default: V | D | None = None, /) -> V | D | None:
        self._names.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            self._names.add(key)
        return super().__contains__(key)


def _place(key: str) -> int:
    # crc32 and not hash(): the latter differs from process to process.
    return crc32(key.encode("utf-8", "surrogatepass")) % _CHUNKS
