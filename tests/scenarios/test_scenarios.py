"""The two programs that run the engine among real servers, and kill these: nothing is lost, nothing
comes twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from benchmarks.detection_live import run as detection
from benchmarks.detection_live.events import Events
from benchmarks.detection_live.senders import Pace, Senders
from benchmarks.detection_live.site import Site
from benchmarks.iot import run as iot
from benchmarks.scenarios.measured import Measured
from benchmarks.scenarios.sql_server import Share, SqlServer
from tests.servers.kafka import KafkaServer
from tests.servers.process import Missing
from tests.servers.rsyslog import Rsyslog
from tests.servers.webhook import WebhookServer, receiving
from tests.support import eventually, shared_folder

T = TypeVar("T")
MEMORY = 2**30


def test_events_come_again_under_new_ids() -> None:
    copies = (
        [b'{"_id":7,"a":1}', b'{"_id": 8}'],
        [b'{"_id": 10000007,"a":2}', b'{"_id":10000008}'],
    )
    events = Events(copies, {7: ["r"], 10_000_008: ["s"]})
    assert [events.record(n) for n in (0, 2, 4)] == [
        b'{"_id":7,"a":1}',
        b'{"_id":10000007,"a":2}',
        b'{"_id":20000007,"a":1}',
    ]
    assert [events.due(n) for n in range(6)] == [["r"], (), (), ["s"], ["r"], ()]
    assert [events.id(n) for n in (1, 5)] == [8, 20_000_008]


class _Glances(Pace):
    """Is looked at when so many events have happened, and so on."""

    def __init__(self, *happened: int) -> None:
        super().__init__(1, happened[-1])
        self._happened = list(happened)

    def until_now(self) -> int:
        return self._happened.pop(0) if len(self._happened) > 1 else self._happened[0]


@pytest.mark.parametrize("glances", [(1, 4), (1, 3, 4), (2, 4, 5), (1, 2, 3, 4, 5)])
def test_a_sender_knows_when_it_has_sent_all(glances: Sequence[int], tmp_path: Path) -> None:
    """Whenever it looked, an event that is not its own may be the last."""
    events = Events([[b'{"_id":%d}' % n for n in range(5)]], {})
    web, sql = WebhookServer(tmp_path), SqlServer(tmp_path, Share())
    servers = Site(KafkaServer(tmp_path), Rsyslog(tmp_path), web, sql)
    senders = Senders(servers, events, _Glances(*glances), set(range(5)))
    sender = threading.Thread(target=senders._log, daemon=True)
    with socket.create_server(("127.0.0.1", servers.rsyslog.port)):
        sender.start()
        eventually(lambda: not sender.is_alive(), "the sender's end", 20)
        senders._hang_up()
    assert senders.again == 0


@pytest.mark.parametrize(
    ("lost", "doubled", "peak_mb", "good"),
    [(0, 0, 900, True), (1, 0, 900, False), (0, 1, 900, False), (0, 0, 1100, False)],
)
def test_what_is_lost_or_twice_or_too_much_is_not_good(
    lost: int, doubled: int, peak_mb: float, good: bool
) -> None:
    judged = detection.Judged(5, {"kafka": lost}, {"webhook": doubled}, {}, repeated=3, keys=0)
    wanted = detection.Wanted(share=Share(1, MEMORY))
    measured = Measured({"sql": 1}, {"sql": peak_mb}, 1, 1, [])
    found = detection.Result(wanted, 1, 0, judged, measured)
    assert found.good == good


def test_a_request_whose_sender_was_killed_in_its_midst_is_none() -> None:
    with receiving() as receiver:
        for body in (b"[1", b"[1]"):
            with socket.create_connection(("127.0.0.1", receiver.server_port), 5) as sender:
                sender.sendall(b"POST /alerts HTTP/1.1\r\nContent-Length: 3\r\n\r\n" + body)
                sender.shutdown(socket.SHUT_WR)
                sender.recv(1000)
        eventually(lambda: receiver.got)
    assert [got.json for got in receiver.got] == [[1]]


@pytest.mark.slow
def test_a_detection_loses_nothing_over_kills() -> None:
    result = detect(detection.Wanted(minutes=1, kills=2, rate=100, copies=1))
    assert result.good, result.judged
    assert result.judged.due > 0
    assert [o.name for o in result.measured.outages] == ["sql", "kafka"]


@pytest.mark.slow
def test_a_plant_loses_nothing_over_kills_on_one_core(tmp_path: Path) -> None:
    wanted = iot.Wanted(minutes=1, kills=2, share=Share(1, MEMORY))
    result = unless_missing(lambda: iot.run(wanted, tmp_path / "plant"))
    assert result.good, result
    assert min(result.found.values()) > 0


def detect(wanted: detection.Wanted) -> detection.Result:
    if shared_folder() is None:
        pytest.skip("the folder ../shared, which has the rules and events, is not there")
    return unless_missing(lambda: detection.run(wanted))


def unless_missing(run: Callable[[], T]) -> T:
    """Runs it, or skips the test where a server cannot run."""
    try:
        return run()
    except Missing as error:
        pytest.skip(str(error))
