"""When a queue that gives nothing is an error."""

from __future__ import annotations

import pytest

from sqlengine.broker.rocketmq import codes
from sqlengine.broker.rocketmq.errors import Refused, RocketAway, RocketError
from sqlengine.connectors.health import Health
from sqlengine.connectors.rocketmq import troubles
from sqlengine.connectors.rocketmq.troubles import QueueTroubles

BUSY = Refused(codes.SYSTEM_BUSY, "to read", "busy")
AWAY = RocketAway("broker 'b' of RocketMQ is not there")
LOST = RocketError("messages are gone")


class Time:
    """A clock of the module, in s."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def pass_by(self) -> None:
        self.now += troubles.PATIENCE_S + 1


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(troubles, "time", made)
    return made


def test_refusals_that_last(time: Time) -> None:
    found = QueueTroubles(Health())
    found.failed("a:0", BUSY)
    time.pass_by()
    with pytest.raises(Refused):
        found.failed("a:0", BUSY)


def test_a_refusal_that_never_passes() -> None:
    with pytest.raises(Refused):
        QueueTroubles(Health()).failed("a:0", Refused(codes.NO_PERMISSION, "to read", "no"))


def test_two_refusals_that_have_an_answer_between_them(time: Time) -> None:
    found = QueueTroubles(Health())
    for _ in range(3):
        found.failed("a:0", BUSY)
        found.over("a:0")
        time.pass_by()


def test_a_broker_that_starts_again_refuses_at_first(time: Time) -> None:
    found = QueueTroubles(Health())
    for error in (BUSY, AWAY, BUSY):
        found.failed("a:0", error)
        time.pass_by()


def test_two_times_at_which_a_broker_had_not_found_its_last_messages(time: Time) -> None:
    found = QueueTroubles(Health())
    for _ in range(2):
        found.short("a:0", LOST)
        found.over("a:0")
        time.pass_by()
    found.short("a:0", LOST)
    time.pass_by()
    with pytest.raises(RocketError):
        found.short("a:0", LOST)


def test_health_is_that_of_all_queues() -> None:
    health = Health()
    found = QueueTroubles(health)
    found.failed("a:0", AWAY)
    found.failed("a:1", AWAY)
    assert (health.errors, health.retries) == (1, 1), "one connection was lost"
    found.over("a:0")
    found.over("b:0")
    assert AWAY.words in (health.trouble,)
    found.over("a:1")
    assert (health.trouble, health.reconnects) == (None, 1)
