"""Subscriptions of one connection: one for each filter, which all streams share that ask for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from sqlengine.connectors.mqtt.topics import filters_of, matches
from sqlengine.connectors.receivers.base import Stream

# An identifier has 28 bits: the last of them count the subscriptions of one filter, from 1 on.
_TURN_BITS: Final = 4
_TURNS: Final = (1 << _TURN_BITS) - 1
_NUMBERS: Final = 1 << 28 - _TURN_BITS


class Subscription(NamedTuple):
    """The subscription of one filter: the QoS is the highest that a stream asks for. `anew`: what
    the server keeps of it comes again, for a stream that is new to it."""

    filter: str
    qos: int
    identifier: int
    anew: bool


class Subscriptions:
    """The filters of the streams of a connection.

    A server has one subscription for a filter, and a second one takes its place. So each message
    goes to all streams with the filter that its identifier stands for. That is made of the filter
    alone, as messages that wait in a session name it after a restart. What the server had kept
    (`retained`) comes once for each subscription, and goes to the streams that it was made for."""

    def __init__(self) -> None:
        self._filters: dict[str, tuple[str, ...]] = {}  # by stream
        self._wanted: dict[str, dict[str, int]] = {}  # the QoS of streams, by filter
        self._of_number: dict[int, set[str]] = {}  # also those that were ended
        self._turns: dict[str, int] = {}
        self._made_for: dict[int, frozenset[str]] = {}

    def forget(self) -> None:
        """Has no streams any more: another connection begins."""
        self._filters.clear()
        self._wanted.clear()

    def update(
        self, streams: Sequence[Stream], gone: Sequence[Stream]
    ) -> tuple[list[Subscription], list[str]]:
        """Has these streams alone from now on. Returns the subscriptions that are to be made, and
        the filters of those that are to be ended: nobody has them any more."""
        for stream in gone:
            for one in self._filters.pop(stream.topic, ()):
                self._wanted[one].pop(stream.topic, None)
        new: dict[str, list[str]] = {}
        for stream in streams:
            if stream.topic not in self._filters:
                self._filters[stream.topic] = filters_of(stream.what["topic"])
                for one in self._filters[stream.topic]:
                    self._wanted.setdefault(one, {})[stream.topic] = int(stream.what["qos"])
                    new.setdefault(one, []).append(stream.topic)
        made = [self._made(one, topics) for one, topics in new.items()]
        left = {one for stream in gone for one in filters_of(stream.what["topic"])}
        for one in left:
            self._of_number.setdefault(_number(one), set()).add(one)
        return made, sorted(one for one in left if not self._wanted.get(one))

    def _made(self, filter_: str, new: Sequence[str]) -> Subscription:
        wanted, number = self._wanted[filter_], _number(filter_)
        turn = self._turns[filter_] = self._turns.get(filter_, 0) % _TURNS + 1
        identifier = number << _TURN_BITS | turn
        self._of_number.setdefault(number, set()).add(filter_)
        self._made_for[identifier] = frozenset(new)
        return Subscription(filter_, max(wanted.values()), identifier, len(new) < len(wanted))

    def filters(self, stream: str) -> tuple[str, ...]:
        """Returns the filters of a stream."""
        return self._filters.get(stream, ())

    def qos(self, stream: str) -> int:
        """Returns the highest QoS in which messages come for a stream."""
        return max((max(self._wanted[one].values()) for one in self.filters(stream)), default=0)

    def streams_of(
        self, name: str, identifiers: Sequence[int], *, retained: bool = False
    ) -> tuple[str, ...]:
        """Returns the streams that a message is for, by its topic and the identifiers that it
        names. Where it names none, or an unknown one, all filters are asked that take the topic."""
        named = {i: self._of_number.get(i >> _TURN_BITS, set[str]()) for i in identifiers}
        found = {
            stream
            for identifier, filters in named.items()
            for one in filters
            if matches(one, name)
            for stream in self._wanted.get(one, ())
            if not retained or stream in self._made_for.get(identifier, {stream})
        }
        if not any(named.values()):
            asked = (s for one, s in self._wanted.items() if matches(one, name))
            found = {stream for streams in asked for stream in streams}
        return tuple(sorted(found))


def _number(filter_: str) -> int:
    return xxh3_64_intdigest(filter_.encode()) % _NUMBERS
