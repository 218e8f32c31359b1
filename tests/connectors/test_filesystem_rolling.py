"""Files that show when they are complete: once, whole and in order, wherever a crash comes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from parser.errors import SqlError
from planner.catalog import Table
from sqlengine.batch import from_pydict
from sqlengine.broker.errors import BrokerFull
from sqlengine.connectors.base import Sink
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.filesystem.rolling import Policy, RollingFileSink
from sqlengine.connectors.registry import open_sink, open_source
from sqlengine.system.disk import MACHINE, Disk
from tests.connectors.tables import SCHEMA, Clock, environment, json_rows, read_all, table
from tests.connectors.test_file_partitions import table as partitioned
from tests.simulation.disk import SimulatedDisk
from tests.simulation.world import Death, World

FORMATS = ("json", "csv", "parquet")
OUT = Path("/out")


def known(format_name: str, folder: Path = OUT, **options: str) -> Table:
    return table({"connector": "filesystem", "path": str(folder), "format": format_name, **options})


def write(sink: Sink, epoch: int) -> int:
    """Two rows of their own for each epoch."""
    ids = [epoch * 2, epoch * 2 + 1]
    sink.write(from_pydict(SCHEMA, {"id": ids, "name": [f"n{i}" for i in ids]}))
    return sink.commit(epoch)


def shown(disk: Disk, folder: Path = OUT) -> list[int]:
    """The ids in all files that show, in the order of their numbers."""
    names = sorted(
        (n for n in disk.names(folder) if n[0] not in "._"),
        key=lambda n: int(n.split("-")[-1].split(".")[0]),
    )
    found: list[int] = []
    for name in names:
        data = disk.read(folder / name)
        if name.endswith(".parquet"):
            found += pq.read_table(pa.BufferReader(data)).column("id").to_pylist()
        elif name.endswith(".csv"):
            found += [int(line.split(b",")[0]) for line in data.splitlines()]
        else:
            found += [json.loads(line)["id"] for line in data.splitlines()]
    return found


class Fate:
    """Lets the process die within its `at`-th change of the disk."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self) -> bool:
        self.at -= 1
        return self.at == 0


def life(disk: SimulatedDisk, of: Table, fsync: bool) -> None:
    """Repeats the last two epochs, as a recovery may, and goes on to the sixth; a file is complete
    behind each second."""
    sink = RollingFileSink(
        of, OUT, "w", Policy(100, 1 << 40, 1 << 40), lambda: 0, fsync=fsync, disk=disk
    )
    for epoch in range(max((sink.last_epoch() or 0) - 1, 1), 7):
        write(sink, epoch)
        assert shown(disk) == list(range(2, 2 + len(shown(disk))))
    sink.close()


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("power", [False, True])
def test_a_death_at_any_change_of_the_disk(format_name: str, power: bool) -> None:
    of, deaths = known(format_name), 0
    for at in range(1, 200):
        fate = Fate(at)
        disk = SimulatedDisk(World(at), "a", fate)
        try:
            life(disk, of, power)
        except Death:
            deaths += 1
            disk.end_process()
            if power:
                disk.lose_power(wild=True)
            life(disk, of, power)
        assert shown(disk) == list(range(2, 14))
        assert disk.names(OUT)[0].endswith(".journal")
        assert all(n.startswith("part-") for n in disk.names(OUT)[1:])
        if fate.at > 0:
            break
    assert deaths >= 15


def _used_up(left: list[int], _: str) -> bool:
    left[0] -= 1
    return left[0] < 0


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_full_disk_loses_nothing(format_name: str) -> None:
    disk = SimulatedDisk(World(1), "a", lambda: False)
    sink = RollingFileSink(
        known(format_name),
        OUT,
        "w",
        Policy(100, 1 << 40, 1 << 40),
        lambda: 0,
        fsync=False,
        disk=disk,
    )
    for epoch in range(1, 7):
        left = [epoch % 4]

        disk.full = partial(_used_up, left)
        try:
            write(sink, epoch)
        except BrokerFull:
            disk.full = lambda _: False
            sink.commit(epoch)
        disk.full = lambda _: False
    sink.close()
    assert shown(disk) == list(range(2, 14))


def test_time_completes_a_file(tmp_path: Path) -> None:
    clock = Clock(0)
    sink = open_sink(
        known("json", tmp_path, **{"sink.rolling-policy.rollover-interval": "10 s"}),
        environment(clock=clock),
    )
    write(sink, 1)
    clock.now = 9_999
    write(sink, 2)
    sink.roll()
    assert shown(MACHINE, tmp_path) == []
    clock.now = 10_000
    sink.roll()
    assert shown(MACHINE, tmp_path) == [2, 3, 4, 5]
    sink.close()


def test_a_file_that_its_readers_take_away_does_not_come_back(tmp_path: Path) -> None:
    of = known("parquet", tmp_path, **{"sink.rolling-policy.file-size": "1"})
    for epoch in (1, 2, 3):
        sink = open_sink(of, environment())
        write(sink, epoch)
        (file,) = tmp_path.glob("part-*")
        assert pq.read_table(file).column("id").to_pylist() == [epoch * 2, epoch * 2 + 1]
        file.unlink()
        sink.close()
    assert not list(tmp_path.glob("part-*"))


def test_lines_of_complete_files_are_read_back(tmp_path: Path) -> None:
    of = known("json", tmp_path, **{"sink.rolling-policy.file-size": "1 kb"})
    sink = open_sink(of, environment())
    for epoch in range(60):
        write(sink, epoch)
    sink.close()
    assert len(list(tmp_path.glob("part-*"))) > 1
    assert sorted(read_all(open_source(of, environment()))) == sorted(json_rows(range(120)))


def test_partitions_are_committed_with_all_their_rows(tmp_path: Path) -> None:
    clock = Clock(0)
    options = (
        "'sink.partition-commit.policy.kind' = 'success-file', 'sink.partition-commit.delay' = '5"
        " s', "
    )
    of = partitioned(
        tmp_path / "t", more=options + "'sink.rolling-policy.rollover-interval' = '1 h', "
    )
    held = Environment(None, clock, "w")

    def there(folder: str) -> list[str]:
        return sorted(p.name[:5] for p in (tmp_path / "t" / folder).iterdir() if p.name[0] != ".")

    sink = open_sink(of, held)
    sink.write(from_pydict(of.schema, {"id": [1, 2], "k": ["a", "b"]}))
    sink.commit(1)
    sink.roll()
    assert there("k=a") == there("k=b") == []
    clock.now = 5_000
    sink.roll()
    assert there("k=a") == there("k=b") == ["_SUCC", "part-"]
    sink.write(from_pydict(of.schema, {"id": [3, 4], "k": ["a", "c"]}))
    sink.commit(2)
    sink.roll(end=True)
    assert (there("k=a"), there("k=c")) == (["_SUCC", "part-", "part-"], ["_SUCC", "part-"])
    sink.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"sink.partition-commit.policy.kind": "success-file"},
            "has no partitions that could be committed",
        ),
        ({"sink.partition-commit.success-file.name": "../_DONE"}, "begins with _"),
        ({"sink.partition-commit.trigger": "partition-time"}, "bad value 'partition-time'"),
        ({"sink.partition-commit.policy.kind": "metastore,success-file"}, "bad value 'metastore"),
    ],
)
def test_what_cannot_be_committed_is_refused(
    options: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(SqlError, match=said):
        open_sink(known("json", tmp_path, **options), environment())
