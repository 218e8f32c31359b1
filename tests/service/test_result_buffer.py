"""The buffer of a result: what waits for the client is bounded in rows and in bytes."""

from __future__ import annotations

from parser.types import STRING, Column, Schema
from sqlengine.batch import Batch, from_pydict
from sqlengine.queries.results import BUFFERED_BYTES, ResultBuffer

_SCHEMA = Schema((Column("v", STRING),))


def rows(count: int, length: int) -> Batch:
    return from_pydict(_SCHEMA, {"v": ["x" * length] * count})


def test_rows_that_nobody_reads_stop_the_statement_by_number_and_by_size() -> None:
    buffer = ResultBuffer()
    buffer.put(rows(4_999, 1))
    assert buffer.wait_for_space(0)
    buffer.put(rows(1, 1))
    assert not buffer.wait_for_space(0)
    large = ResultBuffer()
    large.put(rows(17, BUFFERED_BYTES // 16))
    assert not large.wait_for_space(0)


def test_pages_that_are_read_make_space() -> None:
    buffer = ResultBuffer()
    buffer.put(rows(40, 1 << 20))
    before, token = buffer.size, 0
    while not buffer.wait_for_space(0):
        token = buffer.page(token, 0).next or 0
    assert 0 < buffer.size < BUFFERED_BYTES < before
    while buffer.size:
        token = buffer.page(token, 0).next or 0
    assert buffer.page(token, 0).batches == ()
    buffer.put(rows(3, 10))
    assert buffer.size > 0
    buffer.drop()
    assert buffer.size == 0
