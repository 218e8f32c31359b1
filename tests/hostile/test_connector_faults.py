"""Whatever a connector raises, answers or never answers: the jobs that use its table fail, with a
reason that names it; a job beside them loses and repeats nothing, and the jobs can be stopped,
removed and started again."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from parser.errors import ServiceError, SqlError
from sqlengine.config import Config
from sqlengine.connectors.base import Sink, Source
from sqlengine.connectors.boundary.cache import WalledCache
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.connectors.boundary.sink import WalledSink
from sqlengine.connectors.boundary.source import WalledSource
from sqlengine.connectors.full_cache import FullCache
from sqlengine.engine import Engine
from sqlengine.engine.views.job_progress import LookupTable
from sqlengine.jobs.job import JobState
from sqlengine.session.session import Session
from sqlengine.session.spark import script_runner
from sqlengine.system import lanes
from tests.engine.by_hand import die
from tests.hostile.injector import (
    HANG,
    NONSENSE,
    RAISES,
    SINK_METHODS,
    SOURCE_METHODS,
    VERSION_METHODS,
    Fault,
    Injector,
)
from tests.spark.scripting import Collected
from tests.spark.staged import Staged
from tests.support import eventually

TIMEOUT_S = 0.3
SLOW = pytest.mark.slow
TABLES = """
CREATE TABLE events (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE seen (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'seen', 'format' = 'json');
"""
MAY_HANG = ("filesystem", "rolling", "jdbc", "python")


@dataclass(frozen=True)
class End:
    """A table that goes wrong: its columns and options, and how its rows are counted; none where
    nobody can."""

    columns: str
    options: str
    rows: Callable[[Path], list[int]] | None = None


def of_files(folder: Path) -> list[int]:
    files = [f for f in folder.glob("out/*") if not f.name.startswith(".")]
    return sorted(int(line) for f in files for line in f.read_text().split())


def of_database(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "app.db")) as database:
        return sorted(i for (i,) in database.execute("SELECT id FROM out"))


CALLED: list[int] = []
SINKS = {
    "filesystem": End("id BIGINT", "'connector' = 'filesystem', 'path' = '{folder}/out', 'format' = 'csv'", of_files),
    "rolling": End(
        "id BIGINT",
        "'connector' = 'filesystem', 'path' = '{folder}/out', 'format' = 'csv',"
        " 'sink.rolling-policy.rollover-interval' = '50 ms'",
        of_files,
    ),
    "jdbc": End("id BIGINT", "'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'out'", of_database),
    "topic": End("id BIGINT", "'connector' = 'topic', 'topic' = 'out', 'format' = 'json'"),
    "blackhole": End("id BIGINT", "'connector' = 'blackhole'"),
    "print": End("id BIGINT", "'connector' = 'print'"),
    "python": End("id BIGINT", "'connector' = 'python', 'callable' = 'take'"),
}  # fmt: skip
SOURCES = {
    "filesystem": End("id BIGINT", "'connector' = 'filesystem', 'path' = '{folder}/in', 'format' = 'csv', 'source.monitor-interval' = '10 ms'"),
    "jdbc": End("id BIGINT", "'connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/app.db', 'table-name' = 'numbers'"),
    "datagen": End("id BIGINT", "'connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000', 'rows-per-second' = '100'"),
    "topic": End("id BIGINT", "'connector' = 'topic', 'topic' = 'numbers', 'format' = 'json'"),
}  # fmt: skip


class House:
    """An engine with a witness, in a folder, and the injector in its connectors."""

    def __init__(self, folder: Path, injector: Injector) -> None:
        self.folder, self.injector = folder, injector
        self.timeout_s = TIMEOUT_S
        self.fed = 0
        (folder / "in").mkdir(exist_ok=True)
        (folder / "in" / "a.csv").write_text("1\n2\n3\n")
        with closing(sqlite3.connect(folder / "app.db")) as database:
            database.execute("CREATE TABLE out (id BIGINT)")
            database.execute("CREATE TABLE numbers (id BIGINT)")
            database.executemany("INSERT INTO numbers VALUES (?)", [(1,), (2,), (3,)])
            database.commit()
        self.engine = self.opened()
        for topic in ("events", "seen", "out", "numbers"):
            self.engine.broker.create_topic(topic)
        self.engine.submit("tables", TABLES)
        self.engine.submit("witness", "INSERT INTO seen SELECT id FROM events")
        self.engine.broker.append("numbers", 0, [b'{"id": 1}', b'{"id": 2}'], timestamp_ms=0)

    def opened(self, openings: Openings | None = None) -> Engine:
        config = Config(
            data=self.folder / "data",
            connector_timeout_s=self.timeout_s,
            checkpoint_ms=20,
            isolation=False,
            settings={"restart-strategy.type": "none"},
        )
        take = {"take": lambda rows: CALLED.extend(rows.column("id").to_pylist())}
        engine = Engine(config, callables=take, openings=openings)
        engine.start()
        return engine

    def die(self) -> None:
        """As if the process had died: nothing is completed, and no checkpoint taken."""
        die(self.engine)

    def feed(self, count: int = 3) -> None:
        ids = range(self.fed, self.fed + count)
        self.fed += count
        lines = [json.dumps({"id": i}).encode() for i in ids]
        self.engine.broker.append("events", 0, lines, timestamp_ms=0)

    def witnessed(self) -> list[int]:
        return self.of_topic("seen")

    def of_topic(self, topic: str) -> list[int]:
        records = self.engine.broker.read(topic, 0, 0, max_records=1 << 20)
        return [] if records is None else [json.loads(v)["id"] for v in records.values.to_pylist()]

    def witness_goes_on(self) -> None:
        """The job beside has every row once, in order, and takes more."""
        self.feed()
        eventually(
            lambda: len(self.witnessed()) >= self.fed,
            lambda: (self.witnessed(), self.fed, self.engine.graphs.problem),
        )
        assert self.witnessed() == list(range(self.fed))
        assert not self.engine.graphs.broken

    def state(self, job: str) -> JobState:
        return self.engine.job(job).state

    def settles(self, job: str) -> JobState:
        """The state of a job, once it has failed or all its rows are out."""
        until = time.monotonic() + 4 * TIMEOUT_S + 1
        while time.monotonic() < until and self.state(job) is JobState.RUNNING:
            time.sleep(0.02)
        return self.state(job)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with Injector() as injector:
        one = House(tmp_path, injector)
        yield one
        for table in list(injector.faults):
            injector.switch_off(table)
        one.engine.close()


def faults(methods: Sequence[str], *, hangs: bool) -> Iterator[tuple[str, str, object]]:
    for method in methods:
        for how in (*RAISES, HANG) if hangs else RAISES:
            # Only a lane keeps an exit of the thread from the thread that waits.
            if how != "SystemExit" or hangs:
                yield method, how, None
        for answer in NONSENSE.get(method, ()):
            yield method, "nonsense", answer


def is_named(house: House, job: str, table: str) -> None:
    """A job that has failed says which table it was."""
    found = house.engine.job(job)
    if found.state is not JobState.RUNNING:
        assert found.reason is not None
        assert f"'{table}'" in found.reason, found.reason


def go_wrong_beside_a_witness(house: House, kind: str, sink: bool, fault: Fault) -> None:
    """A job whose table goes wrong while it runs, through failure, stop, start and removal."""
    end, engine = (SINKS if sink else SOURCES)[kind], house.engine
    options = end.options.format(folder=house.folder)
    engine.submit("bad_table", f"CREATE TABLE bad ({end.columns}) WITH ({options})")
    text = (
        "INSERT INTO bad SELECT id FROM events" if sink else "INSERT INTO gone SELECT id FROM bad"
    )
    engine.submit("out_table", "CREATE TABLE gone (id BIGINT) WITH ('connector' = 'blackhole')")
    if fault.method in ("open", "resume", "start", "last_epoch"):  # calls at the begin
        house.injector.switch_on("bad", fault)
        began = time.monotonic()
        assert "'bad'" in refusal(lambda: engine.submit("victim", text), "'bad'")
        assert time.monotonic() - began < 20
        house.witness_goes_on()
        house.injector.switch_off("bad")
        first = 0 if "victim" in engine.log.jobs else house.fed
        eventually(lambda: submitted(engine, text), "the job")
    else:
        first = house.fed
        engine.submit("victim", text)
        house.witness_goes_on()
        house.injector.switch_on("bad", fault)
    house.witness_goes_on()
    house.settles("victim")
    is_named(house, "victim", "bad")
    house.witness_goes_on()
    began = time.monotonic()
    engine.stop_job("victim")
    assert time.monotonic() - began < 10
    house.witness_goes_on()
    house.injector.switch_off("bad")
    eventually(lambda: started(engine), "a start")
    house.witness_goes_on()
    # A file that could not be closed stays hidden, as it was committed.
    if end.rows is not None and (kind, fault.method) != ("rolling", "close"):
        rows = end.rows
        expected = list(range(first, house.fed))
        eventually(lambda: len(rows(house.folder)) >= len(expected), lambda: rows(house.folder))
        assert rows(house.folder) == expected
    engine.remove("victim")
    house.witness_goes_on()


def refusal(work: Callable[[], object], otherwise: str) -> str:
    """The error with which the work ends; a method that is not called does no harm."""
    try:
        work()
    except SqlError as error:
        return str(error)
    return otherwise


def submitted(engine: Engine, text: str) -> bool:
    try:
        engine.submit("victim", text)
    except SqlError:  # its host is not asked again for a moment
        return False
    return True


def started(engine: Engine) -> bool:
    try:
        engine.start_job("victim")
    except SqlError:
        return False
    return engine.job("victim").state is JobState.RUNNING


CASES = [
    (kind, sink, *fault)
    for sink, ends, methods in ((True, SINKS, SINK_METHODS), (False, SOURCES, SOURCE_METHODS))
    for kind in ends
    for fault in faults(methods, hangs=kind in MAY_HANG)
]


@SLOW
@pytest.mark.parametrize(
    ("kind", "sink", "method", "how", "answer"),
    CASES,
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_every_fault(
    house: House, kind: str, sink: bool, method: str, how: str, answer: object
) -> None:
    go_wrong_beside_a_witness(house, kind, sink, Fault(method, how, answer))


def go_wrong_in_recovery(house: House, kind: str, sink: bool, fault: Fault) -> None:
    """The server dies, and the table goes wrong while it recovers."""
    end, engine = (SINKS if sink else SOURCES)[kind], house.engine
    options = end.options.format(folder=house.folder)
    engine.submit("bad_table", f"CREATE TABLE bad ({end.columns}) WITH ({options})")
    text = (
        "INSERT INTO bad SELECT id FROM events" if sink else "INSERT INTO gone SELECT id FROM bad"
    )
    engine.submit("out_table", "CREATE TABLE gone (id BIGINT) WITH ('connector' = 'blackhole')")
    engine.submit("victim", text)
    house.witness_goes_on()
    house.die()
    house.injector.switch_on("bad", fault)
    house.engine = house.opened()
    house.witness_goes_on()
    house.settles("victim")
    is_named(house, "victim", "bad")
    house.engine.stop_job("victim")
    house.witness_goes_on()
    house.injector.switch_off("bad")
    eventually(lambda: started(house.engine), "a start")
    house.witness_goes_on()
    if end.rows is not None and (kind, fault.method) != ("rolling", "close"):
        rows = end.rows
        eventually(lambda: len(rows(house.folder)) >= house.fed, lambda: rows(house.folder))
        assert rows(house.folder) == list(range(house.fed))


@SLOW
@pytest.mark.parametrize(
    ("method", "how", "answer"),
    list(faults(VERSION_METHODS, hangs=True)),
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_every_fault_of_a_table_that_is_looked_up(
    house: House, method: str, how: str, answer: object
) -> None:
    engine = house.engine
    engine._openings.timeout_s = 30.0  # the first version is built as the table is opened
    options = (
        f"'connector' = 'filesystem', 'path' = '{house.folder}/in', 'format' = 'csv',"
        " 'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '1 ms'"
    )
    engine.submit("bad_table", f"CREATE TABLE bad (id BIGINT) WITH ({options})")
    engine.submit("out_table", "CREATE TABLE gone (id BIGINT) WITH ('connector' = 'blackhole')")
    engine.submit(
        "victim",
        "INSERT INTO gone SELECT e.id FROM (SELECT id, PROCTIME() AS p FROM events) e"
        " JOIN bad FOR SYSTEM_TIME AS OF e.p ON bad.id = e.id",
    )

    def lookup() -> LookupTable:
        (found,) = engine.progress.of(engine.job("victim")).lookups
        return found

    house.witness_goes_on()
    eventually(lambda: lookup().rows == 3, lookup)
    fault = Fault(method, how, answer)
    house.injector.switch_on("bad", fault)
    if method == "content_stamp":  # the only one that is called before there is a change
        eventually(lambda: fault.calls > 1 or (how == HANG and fault.calls), lookup)
    with (house.folder / "in" / "a.csv").open("a") as file:
        file.write("4\n")
    if how != HANG:
        eventually(lambda: lookup().error, lookup)
        assert "bad" in lookup().error
    house.witness_goes_on()
    assert lookup().rows == 3
    house.injector.switch_off("bad")
    eventually(lambda: lookup().rows == 4, lookup)
    assert not lookup().error
    assert engine.job("victim").state is JobState.RUNNING
    house.witness_goes_on()


@SLOW
@pytest.mark.parametrize(
    ("kind", "sink", "method", "how", "answer"),
    CASES,
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_every_fault_in_a_recovery(
    house: House, kind: str, sink: bool, method: str, how: str, answer: object
) -> None:
    go_wrong_in_recovery(house, kind, sink, Fault(method, how, answer))


@pytest.mark.parametrize(
    ("kind", "sink", "method", "how", "answer"),
    [
        ("jdbc", True, "commit", HANG, None),
        ("filesystem", False, "read", "OSError", None),
        ("topic", False, "shards", "ValueError", None),
        ("datagen", False, "read", "nonsense", "rows"),
    ],
)
def test_some_faults(
    house: House, kind: str, sink: bool, method: str, how: str, answer: object
) -> None:
    go_wrong_beside_a_witness(house, kind, sink, Fault(method, how, answer))


def test_a_fault_in_a_recovery(house: House) -> None:
    go_wrong_in_recovery(house, "filesystem", True, Fault("commit", "ValueError"))


def test_a_table_that_does_not_open_holds_up_no_other_change(house: House) -> None:
    """Nor does it hold up the end of the server."""
    house.injector.switch_on("bad", Fault("open", HANG))
    engine, text = house.engine, "INSERT INTO bad SELECT id FROM events"
    options = "'connector' = 'python', 'callable' = 'take'"
    engine.submit("bad_table", f"CREATE TABLE bad (id BIGINT) WITH ({options})")
    with ThreadPoolExecutor(1) as others:
        waits = others.submit(refusal, lambda: engine.submit("victim", text), "")
        engine.submit("other", "INSERT INTO seen SELECT id FROM events WHERE id < 0")
        house.witness_goes_on()
        assert "no answer for 0.3 s" in waits.result()
    assert "no answer" in refusal(lambda: engine.submit("victim", text), "")


@pytest.fixture
def hanging(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    """A house in which a commit hangs, and the deadline is far."""
    house.engine.close()
    house.timeout_s = 600
    house.engine = house.opened()
    options = SINKS["jdbc"].options.format(folder=house.folder)
    house.engine.submit("bad_table", f"CREATE TABLE bad (id BIGINT) WITH ({options})")
    house.engine.submit("victim", "INSERT INTO bad SELECT id FROM events")
    house.witness_goes_on()
    house.injector.switch_on("bad", Fault("commit", HANG))
    house.witness_goes_on()
    monkeypatch.setattr(lanes, "_GRACE_S", 0.2)
    return house


def test_a_job_leaves_while_its_table_hangs(hanging: House) -> None:
    """What was not answered is written once, when the job comes back."""
    hint = "its rows wait: table 'bad' has not answered"
    eventually(lambda: hint in (hanging.engine.hints().get("victim") or ""), "a hint")
    assert hanging.engine.ready
    began = time.monotonic()
    hanging.engine.stop_job("victim")
    hanging.witness_goes_on()
    assert "does not come back" in refusal(lambda: hanging.engine.start_job("victim"), "")
    assert time.monotonic() - began < 20
    hanging.injector.switch_off("bad")
    eventually(lambda: started(hanging.engine), "a start")
    hanging.witness_goes_on()
    eventually(lambda: len(of_database(hanging.folder)) >= hanging.fed)
    assert of_database(hanging.folder) == list(range(hanging.fed))


def test_a_server_stops_while_a_table_hangs(hanging: House) -> None:
    """The commit happens after all, behind its back: the next start does not write it again."""
    began = time.monotonic()
    hanging.engine.close()
    assert time.monotonic() - began < 20
    hanging.injector.switch_off("bad")
    eventually(lambda: len(of_database(hanging.folder)) == hanging.fed)
    hanging.engine = hanging.opened()
    hanging.witness_goes_on()
    eventually(lambda: len(of_database(hanging.folder)) >= hanging.fed)
    assert of_database(hanging.folder) == list(range(hanging.fed))


def test_a_recovery_that_waits_for_a_table_can_be_ended(house: House) -> None:
    options = SINKS["jdbc"].options.format(folder=house.folder)
    house.engine.submit("bad_table", f"CREATE TABLE bad (id BIGINT) WITH ({options})")
    house.engine.submit("victim", "INSERT INTO bad SELECT id FROM events")
    house.witness_goes_on()
    house.die()
    house.timeout_s = 600
    fault = Fault("open", HANG)
    house.injector.switch_on("bad", fault)
    openings = Openings(lanes.ThreadLanes(), 600)
    with ThreadPoolExecutor(1) as other:
        opening = other.submit(house.opened, openings)
        eventually(lambda: fault.calls)
        openings.stop()
        house.engine = opening.result(20)
    house.witness_goes_on()  # a sink that could not be opened fails its job with the first rows
    eventually(lambda: house.state("victim") is JobState.FAILED)
    house.injector.switch_off("bad")


def test_a_script_waits_for_a_table_that_opens_slowly(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "bad.json").write_text('{"n": 3}')
    text = f"""CREATE TABLE bad (n INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/bad.json', 'format' = 'json');
    SELECT n FROM bad;"""
    fault = Fault("open", HANG)
    with Injector() as injector, script_runner(tmp_path / "data", 100, Staged(2)) as runner:
        injector.switch_on("bad", fault)
        later = threading.Timer(2.0, fault.released.set)
        later.start()
        collected = Collected(text)
        Session(runner, collected).run(text)
        later.join()
    found = collected.finish()
    assert not found.errors
    assert found.rows['statement 1: ["+I", [3]]'] == 1


def test_many_calls_at_once_are_not_many_that_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    many, released = lanes.ThreadLanes(), threading.Event()
    calls = [many.begin(released.wait) for _ in range(lanes.MOST_HANGING + 5)]
    monkeypatch.setattr(lanes, "_HANGS_S", 0.0)
    with pytest.raises(ServiceError, match="64 calls of connectors do not come back"):
        many.begin(released.wait)
    released.set()
    assert all(call.wait(10) for call in calls)
    assert many.begin(lambda: 3).wait(10)
    many.stop()


@pytest.mark.parametrize(
    ("wall", "interface"),
    [(WalledSource, Source), (WalledSink, Sink), (WalledCache, FullCache)],
)
def test_every_method_of_a_connector_is_behind_the_wall(
    wall: type[object], interface: type[object]
) -> None:
    methods = {n for n, m in vars(interface).items() if callable(m) and not n.startswith("_")}
    assert methods
    assert methods - vars(wall).keys() == set()
