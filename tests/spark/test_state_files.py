"""Files of tasks' state: whole ones, and those with what has changed since. Whatever is written and
read again is what a table had, and nothing before `oldest` is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import ServiceError
from parser.types import BIGINT, STRING, Schema
from sqlengine.executors.spark.saved_tables import BYTES, DELTAS, ROWS, WHOLE, SavedTables
from sqlengine.executors.spark.state_files import all_tables, discard_before, restored
from sqlengine.executors.spark.tasks.state import TaskState
from sqlengine.executors.spark.worker import Step, TaskContext
from sqlengine.state.table import KeyedTable

KEY, VALUE = Schema.of(k=STRING), Schema.of(v=BIGINT)


@dataclass
class Partition:
    """The only partition of a stage, epoch by epoch."""

    folder: str
    deltas: int
    whole_rows: int = 0
    at: TaskState = field(default_factory=TaskState)
    wrote: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.open()

    def step(self) -> Step:
        number = self.at.epoch + 1
        return Step(number, 1, 0, 0, 1, self.at, 7, number > 0, self.deltas, self.whole_rows)

    def open(self) -> None:
        """In a worker that remembers nothing."""
        before = restored(self.step(), self.folder, 1, 0)
        context = TaskContext(before.tables)
        self.table: KeyedTable = context.table("t", KEY, VALUE, ("k",))
        self.saved = SavedTables(before.chain, context.versions)

    def end(self) -> None:
        step = self.step()
        self.wrote.update(self.saved.save({"t": self.table}, step, self.folder, 1, 0))
        self.at = TaskState(step.epoch, 7, 1, 1, oldest=self.saved.chain.base_epoch)

    def put(self, keys: Sequence[str], value: int) -> None:
        slots, _ = self.table.slots_for([pa.array(keys, pa.string())], len(keys))
        self.table.write(slots, {"v": pa.array([value] * len(keys), pa.int64())})
        self.table.mark(slots)

    def remove(self, key: str) -> None:
        slots, _ = self.table.slots_for([pa.array([key])], 1, insert=False)
        self.table.remove(slots[slots >= 0])

    def rows(self) -> dict[str, int]:
        """What is in the files."""
        found = all_tables(self.folder, self.at)["t"]
        assert len(found) == len(set(found["k"].to_pylist()))
        return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


@dataclass(frozen=True)
class Epoch:
    puts: list[str]
    removes: list[str]
    forgets: bool
    discards: bool


_keys = st.lists(st.sampled_from("abcdefgh"), max_size=4, unique=True)
_epochs = st.lists(st.builds(Epoch, _keys, _keys, st.booleans(), st.booleans()), max_size=12)


@settings(max_examples=60, deadline=None)
@given(epochs=_epochs, deltas=st.sampled_from([0, 2, 16]), redone=st.sampled_from([0, 3]))
def test_files_have_what_the_table_had(epochs: list[Epoch], deltas: int, redone: int) -> None:
    with TemporaryDirectory() as folder:
        partition, model = Partition(Path(folder).as_uri(), deltas), dict[str, int]()
        for number, epoch in enumerate(epochs):
            if epoch.forgets:
                partition.open()
            # An attempt whose epoch is repeated, in another worker, has left its file.
            for _ in range(1 + (redone and number % redone == 0)):
                for key in epoch.removes:
                    partition.remove(key)
                if epoch.puts:
                    partition.put(epoch.puts, number)
                before = partition.at
                partition.end()
                after, partition.at = partition.at, before
                if redone and number % redone == 0:
                    partition.open()
            partition.at = after
            if redone and number % redone == 0:
                partition.open()
            model = {k: v for k, v in model.items() if k not in epoch.removes}
            model |= dict.fromkeys(epoch.puts, number)
            assert partition.rows() == model
            if epoch.discards:
                discard_before(partition.folder, partition.at.oldest)
                assert partition.rows() == model


def test_changes_of_a_large_state_cost_what_they_are(tmp_path: Path) -> None:
    partition = Partition(tmp_path.as_uri(), deltas=16, whole_rows=4096)
    partition.put([f"k{n}" for n in range(10_000)], 0)
    partition.end()
    for number in range(1, 40):
        if number % 3 == 0:
            partition.open()
        partition.put([f"k{n}" for n in range(number, number + 20)], number)
        partition.end()
        discard_before(partition.folder, partition.at.oldest)
    assert partition.wrote - Counter({BYTES: 1_000_000}) == {
        WHOLE: 3,
        DELTAS: 37,
        ROWS: 30_000 + 37 * 20,
    }
    assert partition.rows()["k39"] == 39
    assert len(list((tmp_path / "state").iterdir())) <= 17


def test_small_states_are_written_whole(tmp_path: Path) -> None:
    partition = Partition(tmp_path.as_uri(), deltas=16, whole_rows=4096)
    for number in range(5):
        partition.put(["a"], number)
        partition.end()
    assert partition.wrote - Counter({BYTES: 1_000_000}) == {WHOLE: 5, ROWS: 5}
    assert np.all(partition.table.live() == [0])


def test_a_machine_without_the_folder_begins_no_other(tmp_path: Path) -> None:
    partition = Partition((tmp_path / "tasks").as_uri(), deltas=16, whole_rows=4096)
    with pytest.raises(ServiceError, match="does not have the folder"):
        partition.end()
    assert not (tmp_path / "tasks").exists()
