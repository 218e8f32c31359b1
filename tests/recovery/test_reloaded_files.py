"""Rows are looked up in files that change: each row meets the version of its epoch, also when the
epoch is repeated after the file has become another one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.config import Config, Target
from sqlengine.dimensions import table as dimensions_table
from sqlengine.engine import Engine
from sqlengine.executors.dimensions import reloading as dimensions_reloading
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
        self.now += 10

    def change(self, *lines: str) -> None:
        """Another version, which the graphs have read."""
        self.write(*lines)
        step(self.engine)

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
    life.change("1,eins", "3,three", "4,vier")
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
    life.change("1,eins", "2,two")
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
    step(life.engine)
    life.feed(1, 2)
    step(life.engine)
    assert life.out()[3:] == [(1, "uno"), (2, "due")]
    die(life.engine)


def test_rows_of_a_key_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write("1,x", "1,x", "1,y")
    life.engine.submit("job", JOB.format(folder=tmp_path, key=""))
    life.feed(1)
    step(life.engine)
    life.change("1,y", "1,x")
    life.feed(1)
    step(life.engine)
    assert life.out() == [(1, "x"), (1, "x"), (1, "y"), (1, "y"), (1, "x")]
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
    step(life.engine)
    life.feed(1, 2)
    step(life.engine)
    assert life.out()[len(first) :] == [(1, "eins"), (2, "two")]
    die(life.engine)


def test_a_version_that_is_too_large_for_a_savepoint_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dimensions_reloading, "_MOST_TAKEN", 0)
    life = Life(tmp_path)
    life.write("1,one")
    life.engine.submit("job", JOB.format(folder=tmp_path, key=""))
    life.feed(1)
    step(life.engine)
    path = life.engine.save_job("job", stop=True).savepoint
    shutil.rmtree(life.engine.config.dimensions)  # as in another data folder
    life.write("1,eins")
    life.engine.start_job("job", path)
    life.feed(1)
    step(life.engine)
    assert life.out() == [(1, "one"), (1, "eins")]
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


def kept(life: Life) -> tuple[int, int]:
    """How many versions of readers there are, and how much content of tables."""
    folder = life.folder / "data" / "dimensions"
    counted = [sum(f.is_dir() for f in folder.glob(g)) for g in ("sources/*/*", "rows/*/*")]
    return counted[0], counted[1]


def version(number: int) -> list[str]:
    return [f"{i},{number if i % 3 else 'same'}" for i in range(30)]


def test_versions_that_no_recovery_needs_go(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write(*version(0))
    latest = "'topic' = 'o', 'scan.startup.mode' = 'latest-offset',"
    text = JOB.format(folder=tmp_path, key="").replace("'topic' = 'o',", latest)
    life.engine.submit("job", text)
    step(life.engine)
    counts, wanted = [], []
    for number in range(1, 30):
        life.change(*version(number))
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
            step(life.engine)
        counts.append(kept(life))
        assert life.out() == wanted
    assert max(versions for versions, _ in counts) <= 10
    assert max(contents for _, contents in counts) <= 10
    life.engine.remove("job")
    for _ in range(3):
        life.engine.graph.runner.checkpoint(wait=True)
    assert kept(life) == (0, 0)
    die(life.engine)


@pytest.mark.parametrize("place", ["write_index", "finish_file", "read_info"])
def test_a_version_that_a_death_kept_from_being_whole_is_made_again(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path)
    life.write(*version(0))
    life.engine.submit("job", JOB.format(folder=tmp_path, key=""))
    life.feed(1, 3)
    step(life.engine)
    module = dimensions_table if place == "write_index" else dimensions_reloading

    def fateful(*args: object) -> None:
        raise dimensions_reloading.Stopped

    with monkeypatch.context() as patch:
        patch.setattr(module, place, fateful)
        life.change(*version(1))
        life.feed(1, 3)
        step(life.engine)
    assert life.out()[-2:] == [(1, "0"), (3, "same")]
    life.again()
    step(life.engine)
    life.feed(1, 3)
    step(life.engine)
    assert life.out()[-2:] == [(1, "1"), (3, "same")]
    assert kept(life)[1] <= 2
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
            step(life.engine)
            life.feed(1)
            step(life.engine)
        move(life.engine, "job")
        step(life.engine)  # both have the version of now, which was read before or after the move
        life.feed(1, 2, 3, 4)
        step(life.engine)
        life.again()
        step(life.engine)
    life.feed(1)
    step(life.engine)
    assert life.out() == life.out("late")
    assert life.out()[-1] == (1, "2")
    die(life.engine)
