"""The records of a partition that were fetched and have not been taken, as runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

Offsets: TypeAlias = npt.NDArray[np.int64]

# Records of one partition, with their offsets.
Run: TypeAlias = "tuple[Sequence[Message], Offsets]"
# A partition with more records or bytes that nobody takes is not fetched for now.
_WAITING_RECORDS: Final = 20_000
_WAITING_BYTES: Final = 8 << 20
# Of so many records of a run keys and headers are counted.
_LOOKED_AT: Final = 100
# What is taken at once is no longer, but for its last record.
_TAKEN_BYTES: Final = 16 << 20


@dataclass
class Fetched:
    """The records of one partition that wait, as runs in the order of their offsets.

    All before `at` have been taken; `next`: nothing before it is still to come of the client.
    `paused`: the client does not fetch now; `at_end`: there was no more; `besides`: the bytes of a
    record beside its value, about; `error`: what the client told of the partition."""

    at: int
    next: int
    runs: deque[Run] = field(default_factory=deque)
    paused: bool = False
    at_end: bool = False
    besides: int = 0
    error: KafkaError | None = None

    @property
    def first(self) -> int:
        """The offset of the first record that waits; `next` where none does."""
        return int(self.runs[0][1][0]) if self.runs else self.next

    @property
    def is_full(self) -> bool:
        """True if so much waits that no more is fetched for now."""
        records = sum(len(run) for run, _ in self.runs)
        if records > _WAITING_RECORDS:
            return True
        values = sum(sum(map(len, run)) for run, _ in self.runs)
        return values + records * self.besides > _WAITING_BYTES

    def add(self, messages: Sequence[Message], offsets: Offsets) -> None:
        """Adds the records that the client gives next."""
        if offsets[0] < self.next:  # it went back, after a connection was lost
            new = int(np.searchsorted(offsets, self.next))
            messages, offsets = messages[new:], offsets[new:]
        if len(messages):
            self.at_end = False
            self.runs.append((messages, offsets))
            self.next = int(offsets[-1]) + 1

    def take(self, most: int | None, limit: int | None) -> Iterator[Run]:
        """Yields records before `limit`, and drops them here: at most so many, and then no more
        than an epoch has room for, or all of them."""
        room = _TAKEN_BYTES
        while self.runs and most != 0:
            messages, offsets = self.runs[0]
            count = len(messages) if limit is None else int(np.searchsorted(offsets, limit))
            if most is not None:
                count = min(count, most)
                values = np.fromiter(map(len, messages[:count]), np.int64, count)
                sizes = np.cumsum(values + self.besides)
                count = min(count, int(np.searchsorted(sizes, room)) + 1)
                room -= int(sizes[count - 1]) if count else 0
            if not count:
                return
            yield messages[:count], offsets[:count]
            most = None if most is None else most - count
            most = 0 if room <= 0 else most
            if count == len(messages):
                self.runs.popleft()
            else:
                self.runs[0] = messages[count:], offsets[count:]


def joined(runs: Sequence[Run]) -> Run:
    """Returns the records of runs that follow each other as one run."""
    if len(runs) == 1:
        return runs[0]
    offsets = [o for _, o in runs]
    all_ = np.concatenate(offsets) if offsets else np.empty(0, np.int64)
    return [m for run, _ in runs for m in run], all_


def besides(messages: Sequence[Message]) -> int:
    """Returns how many bytes records have beside their values, keys and headers: the average of
    some of them."""
    some = messages[:: max(1, len(messages) // _LOOKED_AT)]
    return sum(map(_besides, some)) // len(some)


def _besides(message: Message) -> int:
    headers = message.headers() or []
    assert isinstance(headers, list)
    return len(message.key() or b"") + sum(len(name) + len(v or b"") for name, v in headers)
