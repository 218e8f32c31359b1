"""The broker: appends and reads beside SQLite (WAL), RocksDB and the bare disk; other processes;
many writers; the tail."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks.broker_batches import events_of, in_process, over_http
from benchmarks.broker_logs import Disk, Log, Ours, Rocks, Sqlite
from benchmarks.measure import percentile
from benchmarks.page import Section, Table
from sqlengine.broker.consumer import Consumer
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.system.durability import Fsync

SECONDS = 0.5
MODES: tuple[Fsync, ...] = ("none", "interval", "epoch")
BATCHES = (1, 100, 1000)
LOGS: dict[str, type[Log]] = {"broker": Ours, "SQLite": Sqlite, "RocksDB": Rocks, "bare disk": Disk}
SIZE = 180


def run() -> Section:
    sys.setswitchinterval(0.0001)  # as the server does
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="benchmark-") as name:
        folder = Path(name)
        tables = [
            *_peers(folder),
            in_process(folder),
            over_http(folder),
            _writers(folder),
            _tail(folder),
            _compaction(folder),
        ]
    return Section(
        "broker",
        "The embedded broker",
        f"Messages of {SIZE} random bytes beside the same in SQLite (WAL, a row each), RocksDB (a"
        " key each) and as bare bytes in a file; in k messages a second, wall / CPU. A batch is"
        " one atomic append or transaction. `epoch` syncs every batch before it is acknowledged,"
        " `interval` five times a second, `none` leaves it to the operating system (SQLite:"
        " synchronous FULL, NORMAL, OFF). Reads take 10,000 messages at once, all of them, again"
        " and again: the broker gives them as columns, SQLite and RocksDB an object each. The"
        " other tables: JSON events of about 180 bytes.",
        tables,
        [
            "The bare disk checks, indexes and numbers nothing: it is what no log can pass.",
            (
                "Catching up: groups read all that is there, one after the other, and commit;"
                " another reader waits for what comes."
            ),
            (
                f"Load of the machine meanwhile: {os.getloadavg()[0]:.0f}. Where it is above 1,"
                " rates of wall time are lower bounds, times upper ones, and rates of CPU time"
                " what to compare."
            ),
        ],
    )


def _peers(folder: Path) -> list[Table]:
    """Appends and reads of each log, by mode and size of batches."""
    cells = {
        (mode, size): [_peer(kind, mode, size, folder) for kind in LOGS.values()]
        for mode in MODES
        for size in BATCHES
    }
    return [
        Table(
            title,
            ("fsync, batch", *LOGS),
            [
                (f"{mode}, {size:,}", *(cell[place] for cell in found))
                for (mode, size), found in cells.items()
            ],
        )
        for place, title in enumerate(
            ("Appends, k messages/s, wall / CPU", "Reads, k messages/s, wall / CPU")
        )
    ]


def _peer(kind: type[Log], mode: Fsync, size: int, parent: Path) -> tuple[str, str]:
    chance = random.Random(size)
    values = [chance.randbytes(SIZE) for _ in range(size)]
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        log = kind(Path(folder), mode)
        count, appended = _measure(lambda: _fill(log, values))
        found = log.read()
        again, read = _measure(lambda: _read_again(log))
        log.close()
    assert count == found, f"{kind.__name__} lost messages: {count} appended, {found} read"
    assert again % count == 0, (
        f"{kind.__name__} lost messages: {count} appended, {again % count} read"
    )
    return appended, read


def _measure(work: Callable[[], int]) -> tuple[int, str]:
    """What `work` returns, how many it did, and thousands of them a second of wall and of CPU
    time."""
    wall, cpu = time.perf_counter(), time.process_time()
    count = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return count, f"{_thousands(count / wall)} / {_thousands(count / cpu)}"


def _read_again(log: Log) -> int:
    """As often as fits: with fsync = epoch there is little to read."""
    end = time.perf_counter() + SECONDS / 5
    count = log.read()
    while time.perf_counter() < end:
        count += log.read()
    return count


def _thousands(rate: float) -> str:
    return f"{rate / 1000:,.{2 if rate < 10_000 else 0}f}"


def _fill(log: Log, values: list[bytes]) -> int:
    end = time.perf_counter() + SECONDS
    offset = 0
    while time.perf_counter() < end:
        log.append(offset, values)
        offset += len(values)
    return offset


def _writers(folder: Path) -> Table:
    """Threads that append single messages to one shard, each of which is on disk before it is
    acknowledged."""
    rows = []
    for threads in (1, 4, 16):
        broker = EmbeddedBroker(folder / f"writers-{threads}", fsync="epoch")
        broker.create_topic("t")
        end = time.perf_counter() + 2 * SECONDS

        def work(broker: EmbeddedBroker = broker, end: float = end) -> None:
            while time.perf_counter() < end:
                broker.append("t", 0, [bytes(SIZE)], timestamp_ms=0)

        began = time.perf_counter()
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        rows.append(
            (str(threads), f"{broker.end_offset('t', 0) / (time.perf_counter() - began):,.0f}")
        )
        broker.close()
    return Table("Many writers of one shard, fsync = epoch", ("threads", "appends/s"), rows)


def _tail(folder: Path) -> Table:
    """How long a message takes from its append to a reader who waits for it, alone and beside a
    group that catches up."""
    broker = EmbeddedBroker(folder / "tail")
    broker.create_topic("t")
    events = events_of(1000)
    for _ in range(500):
        broker.append("t", 0, events, timestamp_ms=0)
    rows = []
    for title, catching_up in (
        ("alone", False),
        ("beside a group that reads from the beginning", True),
    ):
        stop = threading.Event()
        read = [0]
        other = threading.Thread(target=_catch_up, args=(broker, stop, read))
        began = time.perf_counter()
        if catching_up:
            other.start()
        delays = _delays(broker)
        seconds = time.perf_counter() - began
        stop.set()
        if catching_up:
            other.join()
        times = [f"{percentile(delays, share) * 1000:,.2f}" for share in (0.5, 0.99)]
        rows.append((title, *times, f"{read[0] / seconds / 1000:,.0f}"))
    broker.close()
    return Table("The tail", ("reader", "p50 ms", "p99 ms", "k messages/s caught up"), rows)


def _catch_up(broker: EmbeddedBroker, stop: threading.Event, read: list[int]) -> None:
    """A group that reads from the beginning, again and again."""
    turn = 0
    while not stop.is_set():
        with closing(Consumer(broker, f"late-{turn}", "reader", "t", start="earliest")) as consumer:
            end = broker.end_offset("t", 0)
            while not stop.is_set() and (records := consumer.poll(0, max_records=4096)) is not None:
                read[0] += records.num_rows
                consumer.commit()
                if records.next_offset >= end:
                    break
        turn += 1


def _delays(broker: EmbeddedBroker) -> list[float]:
    """Seconds from append to read of 300 messages, one every 5 ms."""
    start = broker.end_offset("t", 0)
    sent: list[float] = []

    def write() -> None:
        for _ in range(300):
            sent.append(time.perf_counter())
            broker.append("t", 0, [b"now"], timestamp_ms=0)
            time.sleep(0.005)

    writer = threading.Thread(target=write)
    writer.start()
    delays: list[float] = []
    while len(delays) < 300:
        records = broker.read("t", 0, start + len(delays))
        if records is None:
            broker.wait_for_data(1)
        else:
            now = time.perf_counter()
            delays += [now - sent[len(delays) + row] for row in range(records.num_rows)]
    writer.join()
    return delays


def _compaction(folder: Path) -> Table:
    """A million changes of 100,000 keys, compacted as the server does it, but without its
    pauses."""
    broker = EmbeddedBroker(folder / "compacted")
    broker.create_topic("t", compacted=True)
    events = events_of(10_000)
    for turn in range(100):
        keys: list[bytes | None] = [
            b"key-%d" % ((turn * 10_000 + row) % 100_000) for row in range(10_000)
        ]
        broker.append("t", 0, events, keys=keys, timestamp_ms=turn)
    before, began, longest = broker.topic("t").bytes, time.perf_counter(), 0.0
    step = began
    for _ in broker.compaction_steps():
        longest, step = max(longest, time.perf_counter() - step), time.perf_counter()
    seconds = time.perf_counter() - began
    first = time.perf_counter()
    broker.lookup("t", b"key-7")
    then = time.perf_counter()
    for number in range(1000):
        assert broker.lookup("t", b"key-%d" % number) is not None
    last = time.perf_counter()
    row = (
        f"{before / 2**20:,.0f}", f"{broker.topic('t').bytes / 2**20:,.0f}", f"{seconds:.2f}", f"{longest * 1000:.0f}",
        f"{(then - first) * 1000:,.0f}", f"{(last - then) * 1000:,.0f}",
    )  # fmt: skip
    broker.close()
    columns = (
        "",
        "MB before",
        "MB after",
        "s",
        "longest step, ms",
        "first look-up, ms",
        "look-up after that, µs",
    )
    return Table("A compacted topic: a million changes of 100,000 keys", columns, [("", *row)])
