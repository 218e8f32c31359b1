"""Writing files: the rows of an epoch are there once and whole, wherever a crash comes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import ExecutionError, PlanError, ServiceError
from sqlengine.batch import from_pydict
from sqlengine.broker.errors import BrokerFull
from sqlengine.connectors.base import Sink
from sqlengine.connectors.filesystem import journal as filesystem_journal
from sqlengine.connectors.registry import open_sink, open_source
from sqlengine.system.disk import MachineDisk
from tests.connectors.tables import SCHEMA, environment, json_rows, read_all, table


def wanted(folder: Path, format_name: str = "json", **options: str) -> dict[str, str]:
    return {"connector": "filesystem", "path": str(folder), "format": format_name, **options}


def sink(folder: Path, writer: str = "g") -> Sink:
    return open_sink(table(wanted(folder)), environment(writer=writer))


def write(target: Sink, epoch: int, ids: list[int]) -> int:
    target.write(from_pydict(SCHEMA, {"id": ids, "name": [f"n{i}" for i in ids]}))
    return target.commit(epoch)


def content(folder: Path) -> list[bytes]:
    return read_all(open_source(table(wanted(folder)), environment()))


def test_epochs_are_read_back_and_repeated_ones_add_nothing(tmp_path: Path) -> None:
    first = sink(tmp_path)
    assert first.last_epoch() is None
    assert [
        write(first, 3, [1, 2]),
        write(first, 3, [1, 2]),
        write(first, 4, []),
        write(first, 5, [3]),
    ] == [2, 0, 0, 1]
    first.close()
    again = sink(tmp_path)
    assert again.last_epoch() == 5
    assert [write(again, 5, [3]), write(again, 6, [4])] == [0, 1]
    assert content(tmp_path) == json_rows([1, 2, 3, 4])


@settings(max_examples=60, deadline=None)
@given(cut=st.floats(0, 1), lost=st.integers(0, 40))
def test_a_torn_epoch_is_cut_off(
    tmp_path_factory: pytest.TempPathFactory, cut: float, lost: int
) -> None:
    """The crash is anywhere between the first byte of the last epoch's rows and the last byte of
    its journal line."""
    folder = tmp_path_factory.mktemp("out")
    target = sink(folder)
    write(target, 1, [1, 2])
    write(target, 2, [3])
    data, journal = next(folder.glob("part-*")), next(folder.glob(".part-*"))
    before = data.stat().st_size, journal.stat().st_size
    write(target, 3, [4, 5, 6])
    target.close()
    journal_end = max(journal.stat().st_size - lost, before[1])
    os.truncate(journal, journal_end)
    if lost:
        os.truncate(data, before[0] + int(cut * (data.stat().st_size - before[0])))
    again = sink(folder)
    assert again.last_epoch() == (2 if lost else 3)
    assert content(folder) == json_rows([1, 2, 3] if lost else [1, 2, 3, 4, 5, 6])
    write(again, 3, [4, 5, 6])
    again.close()
    assert content(folder) == json_rows([1, 2, 3, 4, 5, 6])


def test_a_journal_stays_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem_journal, "_MAX_JOURNAL", 200)
    target = sink(tmp_path)
    for epoch in range(100):
        write(target, epoch, [epoch])
    target.close()
    assert next(tmp_path.glob(".part-*.journal")).stat().st_size < 300
    again = sink(tmp_path)
    assert again.last_epoch() == 99
    assert content(tmp_path) == json_rows(range(100))


def test_a_full_disk_leaves_the_epoch_to_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = sink(tmp_path)
    write(target, 1, [1])
    with monkeypatch.context() as full:

        def half(file: int, data: bytes, offset: int) -> int:
            os.lseek(file, offset, os.SEEK_SET)
            os.write(file, bytes(data[:5]))
            raise OSError(errno.ENOSPC, "No space left on device")

        full.setattr(MachineDisk, "pwrite", staticmethod(half))
        with pytest.raises(BrokerFull):
            write(target, 2, [2])
    assert content(tmp_path) == json_rows([1])
    assert target.commit(2) == 1
    assert content(tmp_path) == json_rows([1, 2])


def test_two_writers_have_two_files_and_one_has_only_one_process(tmp_path: Path) -> None:
    sinks = [sink(tmp_path, writer) for writer in ("a/1", "b")]
    for i, target in enumerate(sinks):
        write(target, 1, [i])
    assert sorted(content(tmp_path)) == json_rows([0, 1])
    with pytest.raises(ServiceError, match="as the same writer"):
        sink(tmp_path, "b")


def test_lost_rows_are_noticed(tmp_path: Path) -> None:
    target = sink(tmp_path)
    write(target, 1, [1])
    target.close()
    os.truncate(next(tmp_path.glob("part-*")), 3)
    with pytest.raises(ExecutionError, match="lost rows that were committed"):
        sink(tmp_path)


def test_a_record_with_a_line_break_is_refused(tmp_path: Path) -> None:
    """Where it would be read as two; between quotes it is one."""
    target = open_sink(
        table(wanted(tmp_path, "csv", **{"csv.disable-quote-character": "true"})), environment()
    )
    with pytest.raises(ExecutionError, match="holds a line break"):
        target.write(from_pydict(SCHEMA, {"id": [1], "name": ["a\nb"]}))
    assert target.commit(1) == 0


def test_the_path_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(PlanError, match="is a file"):
        sink(tmp_path / "a")
