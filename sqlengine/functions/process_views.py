"""The views of the keys of a request, in the worker: entries that are asked of the server one by
one, and what was written."""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from sqlengine.functions.hints import BadSignature, fields_of, sql_type
from sqlengine.functions.process_wire import CHANGES
from sqlengine.functions.protocol import Header
from sqlengine.functions.state_views import MISSING, ListView, MapView, ValueView, View

# Under this a list keeps the number of its entries so far, those that are gone included.
_COUNT = b""
# Asks the server, which is waiting for the answer of a request.
Question = Callable[[Header, list[pa.Buffer]], tuple[Header, list[pa.Buffer]]]

_KINDS: dict[object, tuple[str, int]] = {
    MapView: ("MAP VIEW", 2),
    ListView: ("LIST VIEW", 1),
    ValueView: ("VALUE VIEW", 1),
}


@dataclass(frozen=True)
class ViewField:
    """A field of State that is a view: the hints of its keys and values, the words for its type,
    and how long an entry stays that was not written (ms): 0 for ever, None as other state."""

    name: str
    key: Any
    value: Any
    type: str
    ttl_ms: int | None


def view_fields(state: type | None) -> list[ViewField]:
    """The views of a class State, in order. BadSignature for one whose entries have no type."""
    if state is None or not dataclasses.is_dataclass(state):
        return []
    found = (_view(name, hint) for name, hint in fields_of(state))
    return [view for view in found if view is not None]


def _view(name: str, hint: object) -> ViewField | None:
    notes: tuple[object, ...] = ()
    if typing.get_origin(hint) is typing.Annotated:
        hint, *rest = typing.get_args(hint)
        notes = tuple(rest)
    kind = typing.get_origin(hint) or hint
    if kind not in _KINDS:
        if any(isinstance(n, dt.timedelta) for n in notes):
            what = f"State.{name} has a time to live of its own and is no view"
            raise BadSignature(what, "write Annotated[ValueView[…], timedelta(…)]")
        return None
    words, count = _KINDS[kind]
    args = typing.get_args(hint)
    if len(args) != count:
        raise BadSignature(f"State.{name} does not say what its entries are", "MapView[str, int]")
    key = args[0] if kind is MapView else int
    ttl = next((n for n in notes if isinstance(n, dt.timedelta)), None)
    ttl_ms = None if ttl is None else int(ttl.total_seconds() * 1000)
    return ViewField(name, key, args[-1], f"{words}<{', '.join(map(_words, args))}>", ttl_ms)


def _words(hint: object) -> str:
    try:
        return sql_type(hint)[0]
    except BadSignature:  # plain data without a type in SQL, such as a set
        return str(hint)


@dataclass
class _Held:
    """The entries of a view of a key, as far as they are known. `read`: as the server has them,
    None for none; `written`: those since then; `cleared`: the server's do not count any more."""

    read: dict[bytes, bytes | None] = field(default_factory=dict)
    written: dict[bytes, bytes | None] = field(default_factory=dict)
    whole: bool = False
    cleared: bool = False


def nobody(header: Header, blobs: list[pa.Buffer]) -> tuple[Header, list[pa.Buffer]]:
    """The question where nobody is there who could answer it."""
    raise RuntimeError("nobody answers questions about views here")


class Views:
    """The views of all keys of a request."""

    def __init__(self, fields: list[ViewField], question: Question) -> None:
        self.fields = fields
        self._question = question
        self._held: dict[tuple[int, int], _Held] = {}

    def attach(self, state: Any, number: int) -> None:
        """Gives the views of a key's state their entries."""
        for place, view in enumerate(self.fields):
            made: View = getattr(state, view.name)
            made.entries = BoundEntries(self, number, place)

    def clear(self, number: int) -> None:
        """Forgets all entries of a key."""
        for place in range(len(self.fields)):
            BoundEntries(self, number, place).clear()

    def reset(self, number: int) -> None:
        """Makes the views of a key what they were before the request."""
        for place in range(len(self.fields)):
            held = self.of(number, place)
            held.written, held.cleared = {}, False

    def of(self, number: int, place: int) -> _Held:
        return self._held.setdefault((number, place), _Held())

    def ask(self, number: int, place: int, entry: bytes | None) -> list[tuple[bytes, bytes]]:
        """The entry as the server has it, or all entries."""
        about: Header = {"ask": "entries", "key": number, "view": place, "all": entry is None}
        _, blobs = self._question(about, [] if entry is None else [pa.py_buffer(entry)])
        data = [bytes(b) for b in blobs]
        return list(zip(data[::2], data[1::2], strict=True))

    def changes(self) -> pa.RecordBatch:
        """The entries that were written; of a view that was cleared first a row without one."""
        rows: list[tuple[int, int, bytes | None, bytes | None]] = []
        for (number, place), held in self._held.items():
            if held.cleared:
                rows.append((number, place, None, None))
            rows += [(number, place, entry, value) for entry, value in held.written.items()]
        columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(CHANGES)]
        return pa.RecordBatch.from_arrays(columns, schema=CHANGES)


class BoundEntries:
    """The entries of one view of one key."""

    def __init__(self, views: Views, number: int, place: int) -> None:
        self._views, self._number, self._place = views, number, place
        view = views.fields[place]
        self._key, self._value = _decoder(view.key), _decoder(view.value)

    def append(self, value: Any) -> None:
        held = self._views.of(self._number, self._place)
        data = self._data(held, _COUNT)
        number = 0 if data is None else int.from_bytes(data, "big")
        held.written[_ENCODER.encode(number)] = _ENCODER.encode(value)
        held.written[_COUNT] = (number + 1).to_bytes(8, "big")

    def get(self, key: Any) -> Any:
        held = self._views.of(self._number, self._place)
        data = self._data(held, _ENCODER.encode(key))
        return MISSING if data is None else self._value.decode(data)

    def put(self, key: Any, value: Any) -> None:
        held = self._views.of(self._number, self._place)
        held.written[_ENCODER.encode(key)] = _ENCODER.encode(value)

    def remove(self, key: Any) -> None:
        self._views.of(self._number, self._place).written[_ENCODER.encode(key)] = None

    def items(self) -> Iterable[tuple[Any, Any]]:
        held = self._views.of(self._number, self._place)
        if not held.whole and not held.cleared:
            held.read = dict(self._views.ask(self._number, self._place, None))
            held.whole = True
        found = {**({} if held.cleared else held.read), **held.written}
        return [
            (self._key.decode(entry), self._value.decode(value))
            for entry, value in found.items()
            if value is not None and entry != _COUNT
        ]

    def clear(self) -> None:
        held = self._views.of(self._number, self._place)
        held.written, held.cleared = {}, True

    def _data(self, held: _Held, entry: bytes) -> bytes | None:
        if entry in held.written:
            return held.written[entry]
        if held.cleared:
            return None
        if entry not in held.read and not held.whole:
            found = self._views.ask(self._number, self._place, entry)
            held.read[entry] = found[0][1] if found else None
        return held.read.get(entry)


_ENCODER = msgspec.msgpack.Encoder()


@lru_cache(maxsize=256)
def _decoder(hint: Any) -> Any:
    return msgspec.msgpack.Decoder(hint)
