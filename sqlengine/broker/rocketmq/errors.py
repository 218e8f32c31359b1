"""What a cluster of RocketMQ refuses, and that it is away."""

from __future__ import annotations

from sqlengine.broker.errors import BrokerError


class RocketError(BrokerError):
    """The cluster does not do what it was asked for."""


class RocketAway(RocketError):
    """A server cannot be reached, or does not answer: the same may work later."""


class Refused(RocketError):
    """An answer with a `code` other than success."""

    def __init__(self, code: int, what: str, remark: str) -> None:
        super().__init__(f"RocketMQ refuses {what}", detail=remark or f"code {code}")
        self.code = code
