"""Epochs in queues: each is there once, whoever dies, and as a whole in the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sqlengine.broker.errors import BrokerAway, BrokerError
from sqlengine.broker.on_rocketmq.queue_log import QueueLog
from sqlengine.broker.rocketmq.messages import Outgoing
from tests.broker.epochs import require_once_over_restarts, values
from tests.broker.on_rocketmq.conftest import Opens

pytestmark = pytest.mark.slow


def test_an_epoch_is_appended_once_over_restarts(opens: Opens, folder: Path) -> None:
    require_once_over_restarts(opens, folder)


def test_writers_of_two_folders_are_two(opens: Opens, folder: Path) -> None:
    for name in ("a", "b"):
        broker = opens(folder / name)
        broker.create_topic("t", if_not_exists=True)
        assert not broker.append("t", 0, [b"v"], timestamp_ms=0, writer="w", epoch=1).duplicate
    assert values(broker) == [b"v", b"v"]


def test_an_epoch_without_rows_is_remembered(opens: Opens, folder: Path) -> None:
    broker = opens(folder)
    broker.create_topic("t")
    assert broker.append("t", 0, [], timestamp_ms=0).next_offset == 0
    broker.append("t", 0, [], timestamp_ms=0, writer="graph", epoch=3)
    broker.append("t", 0, [b"a"], timestamp_ms=0)
    broker.close()
    broker = opens(folder)
    assert broker.append("t", 0, [b"late"], timestamp_ms=0, writer="graph", epoch=3).duplicate
    assert values(broker) == [b"a"]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_large_epoch_goes_on_where_an_answer_was_lost(
    opens: Opens, folder: Path, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    """An epoch of three requests, of which the second has no answer; also over a restart."""
    broker = opens(folder)
    broker.create_topic("t")
    rows = [b"%06d" % number + b"x" * 100_000 for number in range(100)]
    broker.append("t", 0, [b"before"], timestamp_ms=0, writer="w", epoch=1)
    append, calls = QueueLog.append, list[int]()

    def losing(log: QueueLog, messages: Sequence[Outgoing], time_ms: int) -> int:
        calls.append(len(messages))
        if len(calls) != 2:
            return append(log, messages, time_ms)
        if arrives:
            append(log, messages, time_ms)
        raise BrokerAway("its answer is lost")

    with monkeypatch.context() as patch:
        patch.setattr(QueueLog, "append", losing)
        with pytest.raises(BrokerAway):
            broker.append("t", 0, rows, timestamp_ms=0, writer="w", epoch=2)
    if arrives:
        broker.close()
        broker = opens(folder)
    assert broker.last_epoch("t", 0, "w") == 1
    assert not broker.append("t", 0, rows, timestamp_ms=0, writer="w", epoch=2).duplicate
    assert broker.append("t", 0, rows, timestamp_ms=0, writer="w", epoch=2).duplicate
    assert broker.last_epoch("t", 0, "w") == 2
    assert values(broker) == [b"before", *rows]


def test_a_large_batch_without_a_writer_is_refused(opens: Opens, folder: Path) -> None:
    broker = opens(folder)
    broker.create_topic("t")
    with pytest.raises(BrokerError, match="too many for RocketMQ at once"):
        broker.append("t", 0, [b"x" * 1_000_000] * 5, timestamp_ms=0)
    assert values(broker) == []
