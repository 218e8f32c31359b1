"""The errors of a cluster of RocketMQ: it refuses something, or is away."""

from __future__ import annotations

from typing import Final

from sqlengine.broker.errors import BrokerAway, BrokerError

_MOST: Final = 300  # characters of what a server says


class RocketError(BrokerError):
    """The cluster does not do what it was asked for."""

    @property
    def words(self) -> str:
        """The message with its detail, in one line."""
        return self.message if self.detail is None else f"{self.message}: {self.detail}"


class RocketAway(RocketError, BrokerAway):
    """A server cannot be reached, or does not answer: the same may work later."""


class Refused(RocketError):
    """An answer with a `code` other than success."""

    def __init__(self, code: int, what: str, remark: str) -> None:
        words = " ".join(remark.split())
        super().__init__(f"RocketMQ refuses {what}", detail=words[:_MOST] or f"code {code}")
        self.code = code
