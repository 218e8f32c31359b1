"""INSERT OVERWRITE into a folder: whoever reads it sees the old rows or the new ones, wherever a
crash comes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sqlengine.connectors.base import Sink
from sqlengine.connectors.filesystem.connector import FilesystemConnector
from sqlengine.connectors.filesystem.overwrite import OverwritingFileSink
from sqlengine.connectors.registry import open_source
from tests.connectors.tables import environment, json_rows, read_all, table
from tests.connectors.test_filesystem_sink import sink, wanted, write


def overwriting(folder: Path, writer: str = "new") -> OverwritingFileSink:
    connector = FilesystemConnector()
    opened = connector.overwriting_sink(table(wanted(folder)), environment(writer=writer))
    assert isinstance(opened, OverwritingFileSink)
    return opened


def content(folder: Path) -> list[bytes]:
    return sorted(read_all(open_source(table(wanted(folder)), environment())))


def filled(folder: Path) -> Sink:
    """A folder with a file of ours, one of others, a folder and a hidden file."""
    old = sink(folder, "old")
    write(old, 1, [1, 2])
    old.close()
    (folder / "others.json").write_bytes(json_rows([7])[0] + b"\n")
    (folder / "deep").mkdir()
    (folder / "deep" / "more.json").write_bytes(json_rows([8])[0] + b"\n")
    (folder / "_keep").write_text("hidden")
    return old


def test_rows_show_when_the_statement_has_succeeded(tmp_path: Path) -> None:
    filled(tmp_path)
    target = overwriting(tmp_path)
    write(target, 1, [3])
    write(target, 2, [4])
    assert content(tmp_path) == json_rows([1, 2, 7, 8])
    target.publish_overwrite()
    target.close()
    assert content(tmp_path) == json_rows([3, 4])
    assert sorted(p.name[:5] for p in tmp_path.iterdir()) == ["_keep", "part-"]


def test_a_statement_that_fails_leaves_no_trace(tmp_path: Path) -> None:
    filled(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    target = overwriting(tmp_path)
    write(target, 1, [3])
    target.close()
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_result_empties_the_table(tmp_path: Path) -> None:
    filled(tmp_path)
    target = overwriting(tmp_path)
    target.publish_overwrite()
    target.close()
    assert content(tmp_path) == []


def test_two_statements_of_a_set_add_their_rows(tmp_path: Path) -> None:
    filled(tmp_path)
    first = overwriting(tmp_path)
    of = table(wanted(tmp_path), name="u")
    other = FilesystemConnector().overwriting_sink(of, environment(writer="new"))
    write(first, 1, [3])
    write(other, 1, [4])
    for target in (first, other):
        target.publish_overwrite()
        target.close()
    assert content(tmp_path) == json_rows([3, 4])


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("removed", range(4))
def test_what_a_crash_has_left_is_completed(moved: bool, removed: int, tmp_path: Path) -> None:
    """The list of files is there; the new file may have been moved, and some of the old ones
    removed."""
    filled(tmp_path / "t")
    shutil.copytree(tmp_path / "t", tmp_path / "before")
    target = overwriting(tmp_path / "t")
    write(target, 1, [3, 4])
    target.announce()
    old = sorted(p for p in (tmp_path / "t").iterdir() if p.name[0] not in "._")
    if moved or removed:
        (staged,) = (tmp_path / "t").glob(".staging-*/part-*")
        staged.rename(tmp_path / "t" / staged.name)
    for path in old[:removed]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert content(tmp_path / "t") == json_rows([3, 4])
    assert content(tmp_path / "before") == json_rows([1, 2, 7, 8])
