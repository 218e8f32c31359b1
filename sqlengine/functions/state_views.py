"""Views of state, for modules with process functions: `from sqlengine import ListView, MapView,
ValueView`.

A view is a field of `State` whose entries are read and written one by one, where all other fields
of a key are read as a whole. In a test of a function, outside of a job, it holds its entries
itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, Generic, Protocol, TypeVar

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

MISSING: Any = object()


class Entries(Protocol):
    """The entries of a view. `get` gives MISSING where there is none; `append` puts a value under
    the next number."""

    def append(self, value: Any) -> None: ...

    def get(self, key: Any) -> Any: ...

    def put(self, key: Any, value: Any) -> None: ...

    def remove(self, key: Any) -> None: ...

    def items(self) -> Iterable[tuple[Any, Any]]: ...

    def clear(self) -> None: ...


class _Own:
    """Entries of a view that belongs to no job."""

    def __init__(self) -> None:
        self._held: dict[Any, Any] = {}
        self._count = 0

    def append(self, value: Any) -> None:
        self._held[self._count] = value
        self._count += 1

    def get(self, key: Any) -> Any:
        return self._held.get(key, MISSING)

    def put(self, key: Any, value: Any) -> None:
        self._held[key] = value

    def remove(self, key: Any) -> None:
        self._held.pop(key, None)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return list(self._held.items())

    def clear(self) -> None:
        self._held.clear()


class View:
    """The base of all views: their entries, which the worker puts there."""

    def __init__(self) -> None:
        self.entries: Entries = _Own()


class MapView(View, MutableMapping[K, V], Generic[K, V]):
    """A dict of any size (Flink's MapView): `view[key]`, `view[key] = value`, `key in view` and
    `del view[key]` cost the same however many entries there are; to iterate, or to ask for the
    length, reads all. A value that was changed has to be put again."""

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: K) -> V:
        value: V = self.entries.get(key)
        if value is MISSING:
            raise KeyError(key)
        return value

    def __setitem__(self, key: K, value: V) -> None:
        if key is None:
            raise ValueError("a key of a MapView is not None")
        self.entries.put(key, value)

    def __delitem__(self, key: K) -> None:
        if self.entries.get(key) is MISSING:
            raise KeyError(key)
        self.entries.remove(key)

    def __iter__(self) -> Iterator[K]:
        return iter([key for key, _ in self.entries.items()])

    def __len__(self) -> int:
        return sum(1 for _ in self.entries.items())

    def clear(self) -> None:
        self.entries.clear()


class ListView(View, Generic[T]):
    """A list of any size (Flink's ListView): `append` costs the same however many entries there
    are; to iterate, or to ask for the length, reads all."""

    def append(self, value: T) -> None:
        if value is None:
            raise ValueError("an entry of a ListView is not None")
        self.entries.append(value)

    def extend(self, values: Iterable[T]) -> None:
        for value in values:
            self.append(value)

    def remove(self, value: T) -> None:
        """Removes the first entry that equals the value. ValueError where there is none."""
        for number, held in self._numbered():
            if held == value:
                self.entries.remove(number)
                return
        raise ValueError(f"{value!r} is not in the list")

    def clear(self) -> None:
        self.entries.clear()

    def __iter__(self) -> Iterator[T]:
        return iter([value for _, value in self._numbered()])

    def __len__(self) -> int:
        return len(self._numbered())

    def _numbered(self) -> list[tuple[int, T]]:
        return sorted(self.entries.items(), key=lambda entry: entry[0])


class ValueView(View, Generic[T]):
    """One value that is read when it is asked for: `view.value`, None where there is none."""

    @property
    def value(self) -> T | None:
        found: T = self.entries.get(0)
        return None if found is MISSING else found

    @value.setter
    def value(self, value: T | None) -> None:
        if value is None:
            self.entries.clear()
        else:
            self.entries.put(0, value)

    def clear(self) -> None:
        self.entries.clear()
