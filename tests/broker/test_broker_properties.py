"""Any sequence of appends, reads, compactions and restarts against a model of lists."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sqlengine.broker.base import Broker, Records
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import OffsetOutOfRange
from sqlengine.broker.remote.client import RemoteBroker
from sqlengine.broker.remote.request_handler import handle_request
from sqlengine.broker.storage import small_batches
from sqlengine.broker.storage.compression import COMPRESSIONS, Compression

FEW = small_batches.FEW
PRESENT = st.one_of(st.binary(max_size=40), st.just(bytes(300)))
VALUES = st.one_of(
    st.lists(PRESENT, max_size=6), st.lists(st.one_of(st.none(), PRESENT), max_size=6)
)
SHARDS = st.integers(0, 1)
KEYS = st.sampled_from([b"", b"a", b"b", b"c"])


class Row(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


class Model:
    """A shard as a list. `begin` moves by retention, `times` holds the latest timestamp so far per
    offset."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.begin = self.end = 0
        self.times: list[int] = []
        self.epochs: dict[str, int] = {}


class BrokerMachine(RuleBasedStateMachine):
    compacted: bool
    remote = False

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.lives = 0
        self.now = 0

    @initialize(
        compacted=st.booleans(),
        segment_bytes=st.sampled_from([200, 500, 5000]),
        packed=st.sampled_from(COMPRESSIONS),
    )
    def create(self, compacted: bool, segment_bytes: int, packed: Compression) -> None:
        self.compacted = compacted
        small_batches.FEW = 1  # or else no example has so many batches that they are read together
        self.segment_bytes = segment_bytes
        self.models = [Model(), Model()]
        self.commits: dict[int, int] = {}
        self.open()
        self.broker.create_topic(
            "t", 2, compacted=compacted, retention_ms=None if compacted else 30, compression=packed
        )

    def open(self) -> None:
        """What the rules see is the broker itself, or one that asks it as another process would."""
        opened = EmbeddedBroker(
            self.root / str(self.lives), clock=lambda: self.now, segment_bytes=self.segment_bytes
        )
        self.embedded = opened
        self.broker: Broker = (
            RemoteBroker(lambda question, _: handle_request(opened, question))
            if self.remote
            else opened
        )

    @rule(
        shard=SHARDS,
        values=VALUES,
        keyed=st.booleans(),
        data=st.data(),
        late=st.integers(0, 5),
        tick=st.integers(0, 5),
    )
    def append(
        self,
        shard: int,
        values: list[bytes | None],
        keyed: bool,
        data: st.DataObject,
        late: int,
        tick: int,
    ) -> None:
        self.now += tick
        model = self.models[shard]
        keys = None
        if keyed or self.compacted:
            some = KEYS if self.compacted else st.one_of(st.none(), KEYS)
            keys = data.draw(st.lists(some, min_size=len(values), max_size=len(values)))
        writer = data.draw(st.sampled_from([None, "v", "w"]))
        epoch = data.draw(st.integers(0, 6))
        timestamp = self.now - late
        appended = self.broker.append(
            "t",
            shard,
            values,
            keys=keys,
            timestamp_ms=timestamp,
            writer=writer,
            epoch=epoch if writer else None,
        )
        assert appended.duplicate == (writer is not None and model.epochs.get(writer, -1) >= epoch)
        if not appended.duplicate:
            assert appended.first_offset == model.end
            if writer is not None:
                model.epochs[writer] = epoch
            for key, value in zip(keys or [None] * len(values), values, strict=True):
                model.rows.append(Row(model.end, key, value, timestamp))
                model.times.append(max([timestamp, *model.times[-1:]]))
                model.end += 1
        assert appended.next_offset == model.end

    @rule(shard=SHARDS, data=st.data(), records=st.integers(1, 8), size=st.integers(0, 60))
    def read(self, shard: int, data: st.DataObject, records: int, size: int) -> None:
        model = self.models[shard]
        offset = data.draw(st.integers(model.begin, model.end))
        got = self.broker.read("t", shard, offset, max_records=records, max_bytes=size)
        if offset == model.end:
            assert got is None
            return
        assert got is not None
        assert offset < got.next_offset <= model.end
        assert got.num_rows <= records
        assert self.rows(got) == [
            row for row in model.rows if offset <= row.offset < got.next_offset
        ]
        assert (
            got.num_rows <= 1 or sum(len(value or b"") for value in got.values.to_pylist()) <= size
        )
        assert got.num_rows >= 1 or self.compacted

    @rule(shard=SHARDS, data=st.data())
    def read_exactly(self, shard: int, data: st.DataObject) -> None:
        model = self.models[shard]
        offset = data.draw(st.integers(model.begin, model.end))
        until = data.draw(st.integers(offset, model.end))
        got = self.broker.read("t", shard, offset, until=until)
        expected = [row for row in model.rows if offset <= row.offset < until]
        if got is None:
            assert offset == until
        else:
            assert (self.rows(got), got.next_offset) == (expected, until)

    def all_from(self, shard: int, offset: int) -> list[Row]:
        found: list[Row] = []
        while (records := self.broker.read("t", shard, offset, max_records=50)) is not None:
            found += self.rows(records)
            offset = records.next_offset
        return found

    @staticmethod
    def rows(records: Records) -> list[Row]:
        columns = [
            records.offsets.tolist(),
            records.values.to_pylist(),
            records.timestamps.tolist(),
        ]
        keys = records.keys.to_pylist() if records.keys is not None else [None] * len(columns[0])
        return [
            Row(offset, key, *rest)
            for offset, key, *rest in zip(columns[0], keys, *columns[1:], strict=True)
        ]

    @rule(shard=SHARDS, timestamp=st.integers(-10, 200))
    def seek(self, shard: int, timestamp: int) -> None:
        model = self.models[shard]
        got = self.broker.offset_for_time("t", shard, timestamp)
        first = next(
            (offset for offset, time in enumerate(model.times) if time >= timestamp), model.end
        )
        if self.compacted:
            assert [
                row for row in model.rows if row.offset < got and row.timestamp >= timestamp
            ] == []
        else:
            assert got == max(first, model.begin)

    @rule(shard=SHARDS, offset=st.integers(0, 100))
    def commit(self, shard: int, offset: int) -> None:
        """At most the end: a start takes what lies behind it for lost."""
        offset = min(offset, self.models[shard].end)
        self.broker.commit("g", "t", {shard: offset})
        self.commits[shard] = offset

    @precondition(lambda self: self.compacted)
    @rule()
    def compact(self) -> None:
        self.broker.compact("t")
        for model in self.models:
            last = {row.key: row.offset for row in model.rows}
            model.rows = [row for row in model.rows if last[row.key] == row.offset]

    @precondition(lambda self: not self.compacted)
    @rule(later=st.integers(0, 60))
    def retain(self, later: int) -> None:
        self.now += later
        self.broker.apply_retention()

    @rule()
    def reopen(self) -> None:
        self.embedded.close()
        self.open()

    @rule()
    def die(self) -> None:
        """Goes on with a copy of the files as they are: what a killed process leaves."""
        alive = self.root / str(self.lives)
        self.lives += 1
        shutil.copytree(alive, self.root / str(self.lives))
        self.embedded.close()
        shutil.rmtree(alive)
        self.open()

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "broker"):
            return
        assert self.broker.committed("g", "t") == self.commits
        for shard, model in enumerate(self.models):
            assert self.broker.end_offset("t", shard) == model.end
            assert {
                name: self.broker.last_epoch("t", shard, name) for name in model.epochs
            } == model.epochs
            begin = self.broker.begin_offset("t", shard)
            assert model.begin <= begin <= model.end
            gone = [row for row in model.rows if row.offset < begin]
            assert all(row.timestamp < self.now - 30 for row in gone)
            if begin > model.begin:
                with pytest.raises(OffsetOutOfRange):
                    self.broker.read("t", shard, begin - 1)
            model.begin = begin
            model.rows = model.rows[len(gone) :]
            assert self.all_from(shard, begin) == model.rows
        if self.compacted:
            latest: dict[bytes | None, bytes | None] = {}
            for model in self.models:
                shard_rows = {row.key: row.value for row in model.rows}
                latest |= {key: value for key, value in shard_rows.items() if value is not None}
            assert self.broker.read_latest("t") == latest
            for key in (b"", b"a", b"b", b"c"):
                found = self.broker.lookup("t", key)
                assert (None if found is None else found.value) == latest.get(key)

    def teardown(self) -> None:
        small_batches.FEW = FEW
        if hasattr(self, "broker"):
            self.embedded.close()
        shutil.rmtree(self.root)


class RemoteMachine(BrokerMachine):
    remote = True


FEWER = settings(
    max_examples=20,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestBroker = BrokerMachine.TestCase
TestBroker.settings = FEWER
TestRemoteBroker = RemoteMachine.TestCase
TestRemoteBroker.settings = settings(FEWER, max_examples=10)
