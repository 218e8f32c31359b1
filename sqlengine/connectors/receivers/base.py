"""The interface of receivers: what they take, and for which logs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
from xxhash import xxh3_128_hexdigest

from parser.errors import ServiceError

# Returns what knows a message among others, by its payload and metadata; None where nothing does.
KeyOf: TypeAlias = Callable[[bytes, bytes], Hashable | None]


class Unreachable(ServiceError):
    """The place is not there now: the receiver tries again later."""


class Stream(msgspec.Struct, frozen=True):
    """Messages that go to one log. Data alone, so that it is known again after a restart.

    `place`: the connection that brings them; `what`: what is asked for there, in words of the
    receiver; `most_unread`: bytes that may wait to be read; messages that were read are kept for
    `retention_ms`, as far as they have `retention_bytes`; `lasting_ms`: how long they are taken
    after the last reader has gone."""

    place: str
    what: dict[str, str]
    most_unread: int
    retention_ms: int
    retention_bytes: int
    lasting_ms: int

    @property
    def topic(self) -> str:
        """The topic of the log: another one for another place, or for other messages of it."""
        text = msgspec.json.encode([self.place, sorted(self.what.items())])
        return f"_received_{xxh3_128_hexdigest(text)}"


@dataclass
class Taken:
    """Messages for one log, in order: their payloads, and what came besides."""

    values: list[bytes] = field(default_factory=list)
    metadata: list[bytes] = field(default_factory=list)


# Messages by the topic of their log.
Batch: TypeAlias = Mapping[str, Taken]
# Returns the last so many messages of a log: payloads and metadata, oldest first.
Tail: TypeAlias = Callable[[str, int], Taken]


class Receiver(ABC):
    """Takes messages at one place. Called by one thread of its own, which appends what `take`
    returns and calls `acknowledge` then. It may wait for the place, but for some seconds at most.

    Every method may raise `Unreachable`: the connection is lost, and `connect` is called again
    after a while. Whatever was taken and not acknowledged by then is taken again, by the place's
    own rules."""

    @property
    def unwanted(self) -> int:
        """The number of messages that were dropped, as no stream asks for them. Any thread."""
        return 0

    def adopt(self, other: Receiver) -> None:  # noqa: B027
        """Takes over how another one would connect, for the next time: a password may have changed.
        Any thread."""

    def refused(self, stream: Stream) -> str | None:
        """Returns why the place gives nothing of a stream, for people; None where it does. Any
        thread."""
        return None

    @abstractmethod
    def connect(self, streams: Sequence[Stream], gone: Sequence[Stream], tail: Tail) -> None:
        """Connects, and asks for the messages of these streams; no more for those of `gone`."""

    @abstractmethod
    def follow(self, streams: Sequence[Stream], gone: Sequence[Stream]) -> None:
        """Asks for the messages of these streams alone from now on, while it is connected."""

    @abstractmethod
    def take(self, wait_s: float) -> Batch:
        """Returns what has come, after it has waited for it so long at most. Bounded: what does not
        fit stays where it is."""

    @abstractmethod
    def acknowledge(self) -> None:
        """Tells the place that all that was taken is safe."""

    @abstractmethod
    def rest(self) -> None:
        """Keeps the connection while nothing is taken, as nothing can be appended now. Called every
        second or so."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connection, if there is one. Never raises."""

    def key_of(self, stream: Stream) -> tuple[KeyOf, int] | None:
        """Returns what knows repeated messages of a stream, and among how many of the last ones;
        None where all are taken."""
        return None
