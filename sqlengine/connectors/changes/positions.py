"""Marks of changes in the log of a stream: which kind each is, and where the database has it."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_STRUCT: Final = Struct("!BQQIqQ")
_LAYOUT: Final = np.dtype(
    [
        ("kind", ">u1"),
        ("snapshot", ">u8"),
        ("lsn", ">u8"),
        ("number", ">u4"),
        ("time", ">i8"),
        ("origin", ">u8"),
    ]
)
COMPLETE: Final = 100  # the kind of what is no row: the snapshot is complete, and all before it


class Mark(NamedTuple):
    """`kind`: that of the row (`RowKind`), or COMPLETE; `snapshot`: the place in the log of the
    database at which the snapshot was taken that the change follows; `lsn` of the commit, 0 for
    rows of the snapshot; `number` of the change among those of its table and commit; `time_ms` of
    the commit; `origin`: what else the database must know to go on from there."""

    kind: int
    snapshot: int
    lsn: int = 0
    number: int = 0
    time_ms: int = 0
    origin: int = 0

    def encoded(self) -> bytes:
        return _STRUCT.pack(*self)

    @classmethod
    def decoded(cls, data: bytes) -> Mark:
        return cls(*_STRUCT.unpack(data))

    @property
    def is_in_snapshot(self) -> bool:
        """True for a row of a snapshot, which may be one that was not completed."""
        return self.kind != COMPLETE and not self.lsn


class Marks(NamedTuple):
    """The marks of many changes, each as an array."""

    kinds: npt.NDArray[np.uint8]
    snapshots: npt.NDArray[np.uint64]
    times: npt.NDArray[np.int64]


def marks_of(encoded: pa.Array) -> Marks:
    """Decodes the marks of the records of a log."""
    found = np.frombuffer(b"".join(encoded.to_pylist()), _LAYOUT)
    return Marks(
        found["kind"].astype(np.uint8),
        found["snapshot"].astype(np.uint64),
        found["time"].astype(np.int64),
    )
