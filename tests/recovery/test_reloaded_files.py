"""Rows are looked up in files that change: each row meets the version of its epoch, also when the epoch is repeated after
the file has become another one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from parser.errors import JobError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.config import Config
from sqlengine.engine import Engine
from sqlengine.machine import Machine
from tests.engine.by_hand import die, step

JOB = """
CREATE TEMPORARY TABLE o (id INT, p AS PROCTIME()) WITH ('connector' = 'topic', 'topic' = 'o', 'format' = 'json');
CREATE TEMPORARY TABLE dim (id INT, name STRING{key})
WITH ('connector' = 'filesystem', 'path' = '{folder}/dim.csv', 'format' = 'csv',
  'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '1 ms');
CREATE TEMPORARY TABLE out_rows (id INT, name STRING) WITH ('connector' = 'topic', 'topic' = 'out', 'format' = 'json');
INSERT INTO out_rows SELECT o.id, d.name FROM o LEFT JOIN dim FOR SYSTEM_TIME AS OF o.p AS d ON o.id = d.id
"""
KEYS = {"key": ", PRIMARY KEY (id) NOT ENFORCED", "no key": ""}


class Death(BaseException):
    """The process ends here."""


class Life:
    """An engine over a folder, whose steps are taken by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fed = 0
        self.now = 1_000
        self._open()

    def _open(self) -> None:
        config = Config(data=self.folder / "data", rows_per_read=2, checkpoint_ms=1 << 60)
        self.engine = Engine(config, Machine(clock=lambda: self.now))
        for topic in ("o", "out"):
            self.engine.broker.create_topic(topic, if_not_exists=True)

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

    def out(self) -> list[Sequence[object]]:
        records = self.engine.broker.read("out", 0, 0)
        found = [] if records is None else [json.loads(v) for v in records.values.to_pylist()]
        return [(r["id"], r["name"]) for r in found]


@pytest.mark.parametrize("key", KEYS)
def test_versions(key: str, tmp_path: Path) -> None:
    life = Life(tmp_path)
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
    first = [(1, "one"), (2, "two"), (3, "three"), (4, None)]
    assert life.out() == [*first, (1, "eins"), (2, None), (3, "three"), (4, "vier"), (4, "vier")]
    die(life.engine)


@pytest.mark.parametrize("key", KEYS)
def test_a_repeated_epoch_uses_the_version_that_it_has_used(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = Life(tmp_path)
    life.write("1,one", "2,two")
    life.engine.submit("job", JOB.format(folder=tmp_path, key=KEYS[key]))
    life.feed(1)
    step(life.engine)
    life.write("1,eins", "2,two")
    life.feed(1, 2)
    append = EmbeddedBroker.append
    with monkeypatch.context() as patch:

        def fateful(broker: EmbeddedBroker, topic: str, *args: object, **options: object) -> object:
            if topic == "out":
                raise Death  # the epoch is recorded, and its rows are not written
            return append(broker, topic, *args, **options)  # type: ignore[arg-type]

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


def test_a_savepoint_is_no_start_in_a_graph_that_has_not_the_versions(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.write("1,one", "2,two")
    life.engine.submit("job", JOB.format(folder=tmp_path, key=""))
    life.feed(1)
    step(life.engine)
    path = life.engine.save_job("job", stop=True).savepoint
    with pytest.raises(JobError, match="only the graph has in which the job ran"):
        life.engine.start_job("job", path)
    assert life.engine.start_job("job").status == "started"
    die(life.engine)
