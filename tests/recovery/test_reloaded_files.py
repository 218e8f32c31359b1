"""Rows are looked up in files that change: each row meets the version of its epoch, also when the
epoch is repeated after the file has become another one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.config import Config, Target
from sqlengine.connectors.filesystem import reloaded as filesystem_reloaded
from sqlengine.engine import Engine
from sqlengine.machine import Machine
from tests.engine.by_hand import die, step
from tests.spark.staged import Staged

JOB = """
CREATE TEMPORARY TABLE o (id INT, p AS PROCTIME()) WITH ('connector' = 'topic', 'topic' = 'o', 'format' = 'json');
CREATE TEMPORARY TABLE dim (id INT, name STRING{key})
WITH ('connector' = 'filesystem', 'path' = '{folder}/dim.csv', 'format' = 'csv',
  'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '1 ms');
CREATE TEMPORARY TABLE out_rows (id INT, name STRING) WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
INSERT INTO out_rows SELECT o.id, d.name FROM o LEFT JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.id = d.id
"""
TARGETS = ("embedded", "spark")
KEYS = {"key": ", PRIMARY KEY (id) NOT ENFORCED", "no key": ""}


class Death(BaseException):
    """The process ends here."""


class Life:
    """An engine over a folder, whose steps are taken by hand."""

    def __init__(
        self, folder: Path, segment_bytes: int = 1 << 20, target: Target = "embedded"
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.target = target
        self.fed = 0
        self.now = 1_000
        self._open()

    def _open(self) -> None:
        config = Config(
            data=self.folder / "data",
            rows_per_read=2,
            checkpoint_ms=1 << 60,
            segment_bytes=self.segment_bytes,
            target=self.target,
        )
        machine = Machine(clock=lambda: self.now, spark=lambda config: Staged(2))
        self.engine = Engine(config, machine)
        for name in ("o", "out", "late"):
            self.engine.broker.create_topic(name, if_not_exists=True)

    def write(self, *lines: str) -> None:
        """Another version, in the place of the file at once."""
        fresh = self.folder / ".dim"
        fresh.write_text("".join(line + "\n" for line in lines))
        fresh.replace(self.folder / "dim.csv")

    def feed(self, *ids: int) -> None:
        self.fed += 1
        self.now += 10
        values = [json.dumps({"id": i}).encode() for i in ids]
        self.engine.broker.append("o", 0, values, timestamp_ms=0, writer="feeder", epoch=self.fed)

    def again(self) -> None:
        die(self.engine)
        self._open()

    def out(self, topic: str = "out") -> list[Sequence[object]]:
        records = self.engine.broker.read(topic, 0, 0)
        found = [] if records is None else [json.loads(v) for v in records.values.to_pylist()]
        return [(r["id"], r["name"]) for r in found]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("key", KEYS)
def test_versions(key: str, target: Target, tmp_path: Path) -> None:
    life = Life(tmp_path, target=target)
    life.write("1,one", "2,two", "3,three")
    life.engine.submit("job", JOB.format(folder=tmp_path, key=KEYS[key]))
    life.feed(1, 2, 3, 4)
    step(life.engine)
    life.write("1,eins", "3,three", "4,vier")
    life.feed(1, 2, 3, 4)
    step(life.engine)
    (tmp_path / "dim.csv").unlink()
    life.feed(4)
    step(life.engine)
    found = life.out()
    first = {(1, "one"), (2, "two"), (3, "three"), (4, None)}
    second = {(1, "eins"), (2, None), (3, "three"), (4, "vier")}
    # Rows of different keys come in no order.
    assert (set(found[:4]), set(found[4:8]), found[8:]) == (first, second, [(4, "vier")])
    die(life.engine)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("key", KEYS)
def test_a_repeated_epoch_uses_the_version_that_it_has_used(
    key: str, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path, target=target)
    life.write("1,one", "2,two")
    life.engine.submit("job", JOB.format(folder=tmp_path, key=KEYS[key]))
    life.feed(1)
    step(life.engine)
    life.write("1,eins", "2,two")
    life.feed(1, 2)
    append = EmbeddedBroker.append
    with monkeypatch.context() as patch:

        def fateful(broker: EmbeddedBroker, topic: str, *args: Any, **options: Any) -> object:
            if topic == "out":
                raise Death  # the epoch is recorded, and its rows are not written
            return append(broker, topic, *args, **options)

        patch.setattr(EmbeddedBroker, "append", fateful)
        with pytest.raises(Death):
            step(life.engine)
    life.write("1,uno", "2,due")
    life.again()
    assert life.out() == [(1, "one"), (1, "eins"), (2, "two")]
    life.feed(1, 2)
    step(life.engine)
    assert life.out()[3:] == [(1, "uno"), (2, "due")]
    die(life.engine)


def test_equal_rows_go_one_by_one(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write("1,x", "1,x", "1,y")
    life.engine.submit("job", JOB.format(folder=tmp_path, key=""))
    life.feed(1)
    step(life.engine)
    life.write("1,y", "1,x")
    life.feed(1)
    step(life.engine)
    assert life.out() == [(1, "x"), (1, "x"), (1, "y"), (1, "x"), (1, "y")]
    die(life.engine)


@pytest.mark.parametrize("key", KEYS)
def test_a_savepoint_takes_the_version_along(key: str, tmp_path: Path) -> None:
    life = Life(tmp_path)
    twice = 1 if KEYS[key] else 2
    life.write("1,one", *["2,two"] * twice)
    life.engine.submit("job", JOB.format(folder=tmp_path, key=KEYS[key]))
    life.feed(1)
    step(life.engine)
    path = life.engine.save_job("job", stop=True).savepoint
    life.engine.start_job("job", path)
    (tmp_path / "dim.csv").unlink()
    life.feed(1, 2)
    step(life.engine)
    first = [(1, "one"), (1, "one"), *[(2, "two")] * twice]
    assert life.out() == first
    life.write("1,eins", "2,two")
    life.again()
    life.feed(1, 2)
    step(life.engine)
    assert life.out()[len(first) :] == [(1, "eins"), (2, "two")]
    die(life.engine)


RELOADED = ",\n  'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '1 ms'"


@pytest.mark.parametrize("reloaded", [RELOADED, ""], ids=["read again", "read once"])
@pytest.mark.parametrize(
    "leaves",
    ["'job.state' = 'reset'", "'execution.state-recovery.ignore-unclaimed-state' = 'true'"],
)
def test_a_table_that_nobody_keeps_is_read_anew(leaves: str, reloaded: str, tmp_path: Path) -> None:
    """Where the look-up has not the state that it had."""
    life = Life(tmp_path)
    life.write("1,one", "2,two")
    text = JOB.format(folder=tmp_path, key="").replace(RELOADED, reloaded)
    life.engine.submit("job", text)
    life.feed(1)
    step(life.engine)
    path = life.engine.save_job("job", stop=True).savepoint
    life.write("1,eins", "2,two")
    changed = text.replace("ON o.id = d.id", "ON o.id = d.id AND d.id < 100")
    life.engine.submit(
        "again", f"SET 'execution.state-recovery.path' = '{path}'; SET {leaves}; {changed}"
    )
    life.feed(1, 2)
    step(life.engine)
    assert life.out() == [(1, "one"), (1, "eins"), (2, "two")]
    die(life.engine)


def topic(engine: Engine) -> str:
    (name,) = (t.name for t in engine.broker.topics() if t.name.startswith("_lookup_"))
    return name


def version(number: int) -> list[str]:
    return [f"{i},{number if i % 3 else 'same'}" for i in range(30)]


def test_versions_that_no_recovery_needs_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by the reader's way: what it has read, it does not read again as a whole; a new one
    begins with all of it."""
    monkeypatch.setattr(filesystem_reloaded, "_FEWEST", 50)
    life = Life(tmp_path, segment_bytes=2_000)
    life.write(*version(0))
    latest = "'topic' = 'o', 'scan.startup.mode' = 'latest-offset',"
    text = JOB.format(folder=tmp_path, key="").replace("'topic' = 'o',", latest)
    life.engine.submit("job", text)
    sizes, wanted = [], []
    for number in range(1, 40):
        life.write(*version(number))
        life.feed(1, 3)
        wanted += [(1, str(number)), (3, "same")]
        step(life.engine)
        if number % 4 == 0:
            life.engine.graph.runner.checkpoint(wait=True)
            life.engine.graph.runner.checkpoint(wait=True)
        if number % 6 == 0:
            life.again()  # the epochs since the last checkpoint come again, each with its version
        if number == 23:
            life.engine.remove("job")
            life.engine.submit("job", text)
        broker, name = life.engine.broker, topic(life.engine)
        sizes.append(broker.end_offset(name, 0) - broker.begin_offset(name, 0))
        assert life.out() == wanted
    assert (
        max(sizes[20:])
        <= max(sizes[:20])
        < 400
        < life.engine.broker.end_offset(topic(life.engine), 0)
    )
    die(life.engine)


def two_versions(life: Life) -> None:
    for number in range(2):
        life.write(*version(number))
        life.feed(1, 3)
        step(life.engine)


def test_a_version_that_a_death_kept_from_being_whole_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystem_reloaded, "_FEWEST", 10)
    monkeypatch.setattr(filesystem_reloaded, "_PIECE", 7)
    append = EmbeddedBroker.append
    # Among changes, behind the first piece of a whole version, before its last one.
    for death in (
        8,
        13,
        16,
    ):
        life = Life(tmp_path / str(death))
        life.write(*version(0))
        left = death

        def fateful(broker: EmbeddedBroker, topic: str, *args: Any, **options: Any) -> object:
            nonlocal left
            left -= topic.startswith("_lookup_")
            if not left:
                raise Death
            return append(broker, topic, *args, **options)

        life.engine.submit("job", JOB.format(folder=life.folder, key=""))
        with monkeypatch.context() as patch:
            patch.setattr(EmbeddedBroker, "append", fateful)
            with pytest.raises(Death):
                two_versions(life)
        life.write(*version(2))
        life.again()
        life.feed(1, 3)
        step(life.engine)
        assert life.out()[-2:] == [(1, "2"), (3, "same")]
        life.engine.submit(
            "late",
            JOB.format(folder=life.folder, key="")
            .replace("out_rows", "l")
            .replace("'out'", "'late'"),
        )
        life.feed(1, 3)
        step(life.engine)
        assert life.out()[-2:] == life.out("late") == [(1, "2"), (3, "same")]
        die(life.engine)


@pytest.mark.parametrize("key", KEYS)
def test_a_job_that_moves_takes_its_version_along(key: str, tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write("1,one", "2,two", "3,three")
    text = JOB.format(folder=tmp_path, key=KEYS[key])
    life.engine.submit("job", text)
    life.engine.submit("other", text.replace("'out'", "'late'"))
    life.feed(1, 4)
    step(life.engine)
    for at, move in enumerate((Engine.isolate, Engine.merge, Engine.isolate)):
        life.write(f"1,{at}", "2,two", f"4,{at}")
        if at % 2:
            life.feed(1)
            step(life.engine)
        move(life.engine, "job")
        life.feed(1, 2, 3, 4)
        step(life.engine)
        life.again()
        step(life.engine)
    life.feed(1)
    step(life.engine)
    assert life.out() == life.out("late")
    assert life.out()[-1] == (1, "2")
    die(life.engine)
