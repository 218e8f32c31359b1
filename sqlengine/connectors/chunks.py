"""Records of shards as sources give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Place(NamedTuple):
    """The place of rows of a chunk, from its row `row` on: `at` tells the connector where they
    are."""

    row: int
    at: bytes


@dataclass(frozen=True)
class Chunk:
    """Consecutive records of one shard, from offset `start` (included) to `end` (excluded; the next
    read's start).

    Either `records` (bytes as they came, to be decoded by the table's format) or `columns` (rows
    made by the connector itself, such as datagen's, by column name). `keys`: those of the records,
    where the table's rows are made of them, too; a record of the kind -D then has no value, and no
    bytes in `records`. `kinds`: a RowKind per row,
    None where the connector gives none. `metadata` holds columns by metadata key ('timestamp',
    'offset', …). `digest`: of what was read, where a repetition has to make sure that it reads the
    same. `lengths`: the bytes of each record, where only the first ones of some are in
    `records`. `pruned`: how many parts of the shard (groups of rows of Parquet) were left out, see
    `Source.apply_filter`. `places`: where its rows are, in order, in the place of the rows
    themselves (see `Source.link`); `num_rows` then is the most that these can be."""

    shard: str
    start: int
    end: int
    num_rows: int
    records: pa.Array | None = None
    columns: Mapping[str, pa.Array] | None = None
    offsets: npt.NDArray[np.int64] | None = None
    metadata: Mapping[str, pa.Array] = field(default_factory=dict)
    kinds: npt.NDArray[np.int8] | None = None
    digest: str = ""
    lengths: npt.NDArray[np.int64] | None = None
    pruned: int = 0
    places: Sequence[Place] = ()
    keys: pa.Array | None = None


class Part(NamedTuple):
    """A part of a shard up to the offset `end`, of which so many bytes have to be read."""

    end: int
    bytes: int
