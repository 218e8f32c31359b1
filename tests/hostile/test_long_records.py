"""Records that are longer than 'record-size': dead letters that say how long they were, whatever
reads them, without the memory that they would take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parser.limits import using
from parser.types import STRING, Column, Schema
from sqlengine.connectors.base import Source
from sqlengine.connectors.registry import open_source
from tests.connectors.tables import environment, table
from tests.hostile.scripts import MB, run_script
from tests.service.harness import User
from tests.support import eventually

SIZE = 100_000
FIRST = b'{"id": 1}\n'


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with using(record_size=SIZE):
        yield


def source(path: Path, **options: str) -> Source:
    given = {"connector": "filesystem", "path": str(path), "format": "raw", **options}
    return open_source(table(given, Schema((Column("a", STRING),))), environment())


@pytest.mark.parametrize("more", [{}, {"source.follow": "true"}], ids=["once", "followed"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CR LF"])
def test_lengths_in_a_file_and_in_its_repetition(
    tmp_path: Path, more: dict[str, str], end: bytes
) -> None:
    path = tmp_path / "a.log"
    sizes = [1, SIZE, SIZE + 1, 3, 40 * SIZE, 5, SIZE - 1, 20 * SIZE]
    path.write_bytes(b"".join(bytes([97 + i]) * n + end for i, n in enumerate(sizes)))
    files = source(path, **more)
    first: list[tuple[bytes, int]] = []
    again: list[tuple[bytes, int]] = []
    for shard in files.shards():
        offset = files.start(shard)
        while (chunk := files.read(shard, offset, max_rows=1000)) is not None:
            ranged = files.read(shard, offset, max_rows=1, until=chunk.end)
            for found, part in ((first, chunk), (again, ranged)):
                assert part is not None
                assert part.records is not None
                records = part.records.to_pylist()
                lengths = map(len, records) if part.lengths is None else part.lengths.tolist()
                found += [(r[:1], n) for r, n in zip(records, lengths, strict=True)]
            offset = chunk.end
        whole = files.read(shard, 0, max_rows=1, until=offset)
        assert whole is not None
        assert whole.num_rows == len(sizes)
    assert first == again == [(bytes([97 + i]), n) for i, n in enumerate(sizes)]


def test_a_followed_line_that_is_too_long_and_has_no_end_yet(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"first\n" + b"x" * 30 * SIZE)
    files = source(path, **{"source.follow": "true"})
    (shard,) = files.shards()
    chunk = files.read(shard, 0, max_rows=9)
    assert chunk is not None
    assert chunk.end == 6
    assert files.read(shard, 6, max_rows=9) is None
    with path.open("ab") as file:
        file.write(b"x" * SIZE + b"\nlast\n")
    chunk = files.read(shard, 6, max_rows=9)
    assert chunk is not None
    assert chunk.lengths is not None
    assert chunk.lengths.tolist() == [31 * SIZE]
    after = files.read(shard, chunk.end, max_rows=9)
    assert after is not None
    assert after.records is not None
    assert after.records.to_pylist() == [b"last"]


@pytest.mark.parametrize("size", [400 * MB, pytest.param(4096 * MB, marks=pytest.mark.slow)])
def test_a_file_without_a_line_end_takes_no_memory(tmp_path: Path, size: int) -> None:
    with (tmp_path / "in.json").open("wb") as file:
        file.write(FIRST)
        file.truncate(size)
        file.seek(0, 2)
        file.write(b'\n{"id": 2}\n')
    run = run_script(
        tmp_path,
        """SET 'job.on-error' = 'dead-letter';
        CREATE TABLE t (id BIGINT)
        WITH ('connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json');
        SELECT * FROM t;""",
    )
    assert '{"id": 1}\n{"id": 2}\n' in run.out, run.err
    assert f"{size - len(FIRST):,} bytes" in run.err
    assert run.memory < 260 * MB, run


def test_lines_of_a_request_are_answered_one_by_one_and_records_are_dead_letters(
    user: User,
) -> None:
    long = b'{"word": "' + b"x" * SIZE + b'"}'
    answer: Any = user.client.post(
        "/api/v1/topics/events/records", b'{"id": 99999}\n%s\n{"id": 100000}' % long
    )
    (refused,) = answer["refused"]
    assert (refused["line"], refused["bytes"]) == (2, len(long))
    assert answer["next_offset"] == answer["first_offset"] + 2
    assert user.alerts(100000) == set()
    error = user.refused(lambda: user.write("events", long))
    assert "100,012 bytes" in str(error)
    # A job writes what is longer than others may read.
    user.submit("long", f"INSERT INTO events SELECT 1, REPEAT('x', {SIZE}), 2 FROM alerts LIMIT 1")
    user.fired()
    (letter,) = eventually(user.letters, "a dead letter")
    assert "'record-size'" in letter["reason"]
    assert len(letter["payload"]) == 65_536
    assert user.fired() == set()
