"""Messages of ours that came twice, known by what their writer has put down in a property.

    writer:epoch:number

The number counts the messages of the epoch in their queue. A writer that does not know whether
messages have arrived sends them again, in the same order: whoever has seen a later one of the
writer in a queue has seen these."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec

PROPERTY: Final = "_sqlengine"
_ORIGIN: Final = re.compile(
    rb"(?:\A|\x02)" + PROPERTY.encode() + rb"\x01([!-9;-~]+):([0-9]{1,18}):([0-9]{1,18})(?:\x02|\Z)"
)
# The writers of a queue that are remembered: those that have been heard of last.
_MOST_WRITERS: Final = 64
# Places of a queue at which it is known what was seen: reading may go back to one of them.
_MOST_PLACES: Final = 64

# Epoch and number of the last message by writer.
Seen: TypeAlias = Mapping[str, tuple[int, int]]


class Origin(NamedTuple):
    """The place of a message among all of its writer in a queue."""

    epoch: int
    number: int
    writer: str = ""


def origin_prefix(writer: str, epoch: int) -> str:
    """Returns the property that says the origin of a message, as it is sent, up to the number; the
    byte 2 ends it."""
    return f"{PROPERTY}\x01{writer}:{epoch}:"


def origin_of(properties: bytes) -> Origin | None:
    """Returns what the properties of a message, as they are stored, say of its origin; None where
    it is not of ours."""
    found = _ORIGIN.search(properties)
    if found is None:
        return None
    writer, epoch, number = found.groups()
    return Origin(int(epoch), int(number), writer.decode())


class Repeats:
    """Tells the messages of one queue that came before. It depends on what was read of the queue,
    so it goes back where reading does: to the places that it remembers."""

    def __init__(self, mark: str | None = None) -> None:
        places = _NO_PLACES if mark is None else _decoded(mark)
        self._offsets = [offset for offset, _ in places]
        self._known: list[Seen] = [seen for _, seen in places]
        self._seen: dict[str, tuple[int, int]] = {}
        self._speaks = ""

    def begin(self, offset: int) -> None:
        """Says that the messages from this offset on come next."""
        at = bisect_right(self._offsets, offset)
        del self._offsets[at:], self._known[at:]
        self._seen = dict(self._known[-1]) if self._known else {}
        self._speaks = ""

    def came_before(self, origin: Origin) -> bool:
        """True if a message of this origin, or a later one, came before; else notes it."""
        epoch, number, writer = origin
        place = epoch, number
        last = self._seen.get(writer)
        repeated = last is not None and place <= last
        if writer != self._speaks:
            # Popped and put: the last that was heard of is the last of the dict.
            self._seen.pop(writer, None)
            self._speaks = writer
        self._seen[writer] = last if last is not None and repeated else place
        if len(self._seen) > _MOST_WRITERS:
            del self._seen[next(iter(self._seen))]
        return repeated

    def end(self, offset: int) -> None:
        """Says that reading stands at this offset now."""
        if not self._known and not self._seen:
            return
        seen = dict(self._seen)
        if self._offsets and self._offsets[-1] == offset:
            self._known[-1] = seen
        elif not self._known or self._known[-1] != seen:
            self._offsets.append(offset)
            self._known.append(seen)
        del self._offsets[:-_MOST_PLACES], self._known[:-_MOST_PLACES]

    def mark(self) -> str | None:
        """Returns what has to be known after a restart: of the last two places, as nobody says
        which of them counts. None where there is nothing."""
        if not self._known:
            return None
        last = list(zip(self._offsets, self._known, strict=True))[-2:]
        return msgspec.json.encode([(o, dict(s)) for o, s in last]).decode()


_NO_PLACES: Final[list[tuple[int, Seen]]] = []


def _decoded(mark: str) -> list[tuple[int, Seen]]:
    found = msgspec.json.decode(mark, type=list[tuple[int, dict[str, tuple[int, int]]]])
    return [(offset, MappingProxyType(seen)) for offset, seen in found]
