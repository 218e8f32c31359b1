"""The table and the keys of the benchmarks of look-ups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

ENTRIES: Final = (1_000_000, 10_000_000)
KEY_BYTES, VALUE_BYTES = 50, 20
PROBES: Final = 1 << 21
BATCH: Final = 8_192
QUERY: Final = (
    "SELECT a.k, d.v FROM asked AS a LEFT JOIN dim FOR SYSTEM_TIME AS OF a.p AS d ON a.k = d.k"
)
# Rows that are made at once.
PIECE: Final = 1 << 19
# Numbers follow each other in no order of the table's.
_SCATTER: Final = 2_654_435_761


def keys(numbers: np.ndarray) -> pa.Array:
    """Keys of 50 bytes, in no order."""
    scattered = (numbers.astype(np.uint64) * np.uint64(_SCATTER)) & np.uint64(0xFFFFFFFF)
    parts = (pc.utf8_lpad(pa.array(n).cast(pa.string()), 10, "0") for n in (scattered, numbers))
    return pc.binary_join_element_wise(*parts, "customer.of.some.kind.or.other", "")


def values(numbers: np.ndarray) -> pa.Array:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), VALUE_BYTES, "v")


def write_csv(path: Path, entries: int) -> None:
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    schema = pa.schema([("k", pa.string()), ("v", pa.string())])
    with pyarrow.csv.CSVWriter(path, schema, write_options=options) as writer:
        for start in range(0, entries, PIECE):
            numbers = np.arange(start, min(start + PIECE, entries))
            writer.write(pa.table([keys(numbers), values(numbers)], schema=schema))


def asked(entries: int) -> Iterator[pa.Array]:
    """Keys that are there, that are not, and of which few are most."""
    chance = np.random.default_rng(1)
    yield keys(chance.integers(0, entries, PROBES))
    yield keys(chance.integers(entries, 2 * entries, PROBES))
    yield keys(np.minimum(chance.zipf(1.2, PROBES), entries).astype(np.int64) - 1)
