"""The print and blackhole sinks. How values are printed is in
tests/formats/test_formats_written.py."""

from __future__ import annotations

import numpy as np

from sqlengine.batch import Batch, RowKind, from_pydict
from sqlengine.connectors.registry import open_sink
from tests.connectors.tables import SCHEMA, environment, table


def batch() -> Batch:
    made = from_pydict(SCHEMA, {"id": [1, 2, None], "name": ["a", None, ""]})
    kinds = np.array([RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.DELETE], np.int8)
    return Batch(made.schema, made.columns, made.num_rows, kinds=kinds)


def test_lines_are_printed_at_the_commit() -> None:
    lines: list[str] = []
    sink = open_sink(
        table({"connector": "print", "print-identifier": "out"}), environment(lines=lines)
    )
    sink.write(batch())
    assert lines == []
    assert sink.commit(1) == 3
    assert sink.commit(2) == 0
    assert lines == ["out> +I[1, a]", "out> -U[2, null]", "out> -D[null, ]"]


def test_the_blackhole_counts() -> None:
    sink = open_sink(table({"connector": "blackhole"}), environment())
    sink.write(batch())
    assert [sink.commit(1), sink.commit(2)] == [3, 0]
