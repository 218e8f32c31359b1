"""Tables over files: whole lines, in any portions, once."""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import ExecutionError, UnsupportedError
from parser.types import BIGINT, STRING
from sqlengine.connectors.base import Source
from sqlengine.connectors.filesystem import source as filesystem_source
from sqlengine.connectors.registry import open_source
from tests.connectors.tables import Clock, environment, read_all, table


def source(path: Path | str, clock: Clock | None = None, **options: str) -> Source:
    named = {f"source.{k}".replace("_", "-"): v for k, v in options.items()}
    wanted = table({"connector": "filesystem", "path": str(path), "format": "json", **named})
    return open_source(wanted, environment(clock=clock))


_line = st.binary(max_size=12).map(lambda b: b.replace(b"\n", b"").replace(b"\r", b""))


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(_line, max_size=12),
    max_rows=st.integers(1, 5),
    window=st.sampled_from([1, 7, 64]),
    ended=st.booleans(),
)
def test_all_lines_are_read_in_any_portions(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    max_rows: int,
    window: int,
    ended: bool,
) -> None:
    path = tmp_path_factory.mktemp("in") / "a.json"
    path.write_bytes(b"".join(line + b"\n" for line in lines) if ended else b"\n".join(lines))
    expected = lines if ended or (lines and lines[-1]) else lines[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filesystem_source, "_WINDOW", window)
        patch.setattr(filesystem_source, "_LEAST_WINDOW", 1)
        assert read_all(source(path), max_rows) == expected


def test_the_files_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b/2.json", "a.json", "b/1.json", ".hidden", "_done", "_tmp/x.json", ".git/y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{name}\n")
    assert read_all(source(tmp_path)) == [b"a.json", b"b/1.json", b"b/2.json"]
    assert source(tmp_path).bounded
    assert read_all(source(tmp_path.as_uri())) == [b"a.json", b"b/1.json", b"b/2.json"]


def test_what_comes_later_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("1\n2")
    opened = source(tmp_path)
    with path.open("a") as file:
        file.write("3\n4\n")
    (tmp_path / "b.json").write_text("5\n")
    assert read_all(opened) == [b"1", b"2"]


def test_new_files_are_found_at_the_interval(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    clock = Clock(0)
    opened = source(tmp_path, clock, monitor_interval="10 s")
    assert not opened.bounded
    (tmp_path / "b").write_text("2")
    clock.now = 9_999
    assert read_all(opened) == [b"1"]
    clock.now = 10_000
    assert read_all(opened) == [b"1", b"2"]


def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("1\nunfin")
    opened = source(path, follow="true")
    (shard,) = opened.shards()
    first = opened.read(shard, 0, max_rows=9)
    assert first is not None
    assert first.records is not None
    assert (first.records.to_pylist(), first.end) == ([b"1"], 2)
    assert opened.read(shard, 2, max_rows=9) is None
    with path.open("a") as file:
        file.write("ished\n")
    second = opened.read(shard, 2, max_rows=9)
    assert second is not None
    assert second.records is not None
    assert second.records.to_pylist() == [b"unfinished"]
    assert opened.end(shard) == second.end
    opened.close()


def test_a_range_that_is_gone_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("1\n2\n")
    opened = source(path, follow="true")
    (shard,) = opened.shards()
    with pytest.raises(ExecutionError, match="has changed under a running job") as short:
        opened.read(shard, 0, max_rows=9, until=400)
    assert "it ends at byte 4, byte 400 was there before" in str(short.value)
    opened.close()
    path.write_text("other\n")
    again = source(path, follow="true")
    again.resume({shard: 4}, {})
    with pytest.raises(ExecutionError, match="has changed under a running job"):
        again.read(shard, 0, max_rows=9, until=4)
    again.close()


def test_line_ends_of_windows_and_a_long_line(tmp_path: Path) -> None:
    path = tmp_path / "a"
    long = b"x" * (10 << 20)
    path.write_bytes(b"1\r\n" + long + b"\r\n\r\n2")
    assert read_all(source(path)) == [b"1", long, b"", b"2"]


def test_metadata(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}\n{}\n")
    options = {"connector": "filesystem", "path": str(path), "format": "json"}
    metadata = {"file.path": STRING, "file.name": STRING, "file.size": BIGINT, "offset": BIGINT}
    chunk = open_source(table(options, metadata=metadata), environment()).read(
        str(path), 0, max_rows=9
    )
    assert chunk is not None
    found = {k: v.to_pylist() for k, v in chunk.metadata.items()}
    assert found == {
        "file.path": [str(path)] * 2,
        "file.name": ["a.json"] * 2,
        "file.size": [6, 6],
        "offset": [0, 3],
    }


def test_archives_of_several_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json.zip").write_bytes(b"x")
    with pytest.raises(UnsupportedError, match="is compressed"):
        source(tmp_path)


def test_compressed_files_are_read_as_the_plain_ones(tmp_path: Path) -> None:
    lines = b"".join(b'{"id": %d, "text": "%s"}\n' % (n, b"x" * (n % 50)) for n in range(30_000))
    for number in range(10):  # more than are open at once
        (tmp_path / f"{number:02d}.json.gz").write_bytes(gzip.compress(lines[:-1], 1))
    assert read_shards(source(tmp_path)) == [lines.splitlines()] * 10
    whole = source(tmp_path / "00.json.gz")
    assert read_shards(whole, until=len(lines) - 1) == [lines.splitlines()]


def test_a_compressed_file_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    data = gzip.compress(json.dumps(list(range(100_000))).encode(), 1)
    (tmp_path / "a.json.gz").write_bytes(data[:-20])
    with pytest.raises(ExecutionError, match="is damaged"):
        read_shards(source(tmp_path))


def read_shards(files: Source, until: int | None = None) -> list[list[bytes]]:
    """The records of each shard, read in turns, or as a whole before an offset."""
    found: dict[str, list[bytes]] = {shard: [] for shard in files.shards()}
    at = dict.fromkeys(found, 0)
    with closing(files):
        while any(at[s] < (files.end(s) or 0) for s in at):
            for shard in at:
                chunk = files.read(shard, at[shard], max_rows=1000, until=until)
                if chunk is not None and chunk.records is not None:
                    found[shard] += chunk.records.to_pylist()
                    at[shard] = chunk.end
    return list(found.values())
