"""Appends that wait for their turn."""

from __future__ import annotations

from collections.abc import Sequence

from sqlengine.broker.base import Appended
from sqlengine.broker.storage.codec import Payload


class Queued:
    """An append waiting for its turn; afterwards it has `appended`, or an `error`."""

    __slots__ = ("appended", "epoch", "error", "length", "name", "payload", "timestamp", "writer")

    def __init__(self, payload: Payload, timestamp: int, writer: str | None, epoch: int) -> None:
        self.payload = payload
        self.timestamp = timestamp
        self.writer = writer
        self.epoch = epoch
        self.name = writer.encode() if writer else b""
        self.length = payload.length(self.name)
        self.appended: Appended | None = None
        self.error: BaseException | None = None


def has_writer(group: Sequence[Queued], writer: str | None) -> bool:
    """True if the group has an append of that writer."""
    return writer is not None and any(other.writer == writer for other in group)
