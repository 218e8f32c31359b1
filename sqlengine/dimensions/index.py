"""The index of a version: from the hash of a key to the numbers of its rows.

Entries of 8 bytes, 32 bits of the hash and the number of a row, are sorted by the hash; a directory
over the high bits of the hash says where those of each value begin. So a key costs 8 bytes and its
share of the directory, 4 to 8, and a probe two places in memory. Keys are in the columns alone: who
asks gets candidates, and compares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from sqlengine.dimensions.hashing import HashArray
from sqlengine.state.columns import BoolArray, IntArray

# The first word of the file; the last digit is the number of the format.
_MAGIC: Final = int.from_bytes(b"SQLDIX01", "little")
_WORDS: Final = 4
_LOW: Final = np.uint64((1 << 32) - 1)
_HIGH: Final = np.uint64(32)
# The number of a row has 32 bits.
MOST_ROWS: Final = 1 << 32
_PART: Final = 1 << 16


def write_index(path: Path, hashes: HashArray, rows: IntArray, seed: int) -> None:
    """Writes the index of these rows, given in ascending order, each with the hash of its key."""
    order = np.argsort(hashes, kind="stable")
    bits = _bits_for(len(rows))
    with path.open("wb") as file:
        np.array([_MAGIC, seed, len(rows), bits], np.uint64).tofile(file)
        for start in range(0, len(order), _PART):
            part = order[start : start + _PART]
            entries = (hashes[part] & _LOW) << _HIGH | rows[part].astype(np.uint64)
            entries.tofile(file)
        counts = np.bincount(_buckets(hashes, bits), minlength=1 << bits)
        directory = np.zeros((1 << bits) + 1, np.uint32)
        np.cumsum(counts, out=directory[1:], dtype=np.uint32)
        directory.tofile(file)


def _bits_for(count: int) -> int:
    """Returns how many bits the directory is over: half an entry to one for each value of them."""
    return max(1, count.bit_length())


def _buckets(hashes: HashArray, bits: int) -> IntArray:
    buckets: IntArray = (hashes >> np.uint64(64 - bits)).astype(np.int64)
    return buckets


class MappedIndex:
    """The index of a version, mapped into memory."""

    def __init__(self, path: Path) -> None:
        # A view without the class of a map, which makes small slices slow.
        data: npt.NDArray[np.uint8] = np.asarray(np.memmap(path, np.uint8, "r"))
        head = data[: 8 * _WORDS].view(np.uint64)
        magic, self.seed, count, self._bits = (int(w) for w in head)
        if magic != _MAGIC:
            raise OSError(f"{path} is no index of this format")
        end = 8 * (_WORDS + count)
        self._entries = data[8 * _WORDS : end].view(np.uint64)
        self._directory = data[end:].view(np.uint32)
        self.nbytes = path.stat().st_size

    def candidates(self, hashes: HashArray, most: int | None) -> tuple[IntArray, IntArray, int]:
        """Returns pairs of the number of a hash and a row that may have its key, in the order of
        both, and how many hashes are covered: of several, as many as have `most` pairs together."""
        buckets = _buckets(hashes, self._bits)
        starts = self._directory[buckets].astype(np.int64)
        counts = self._directory[buckets + 1] - starts
        ends = np.cumsum(counts)
        covered = len(hashes)
        if most is not None and covered and ends[-1] > most:
            covered = max(1, int(np.searchsorted(ends, most, side="right")))
            starts, counts, ends = starts[:covered], counts[:covered], ends[:covered]
        numbers = np.repeat(np.arange(covered), counts)
        places = np.arange(len(numbers)) + np.repeat(starts - (ends - counts), counts)
        entries = self._entries[places]
        hit: BoolArray = (entries >> _HIGH) == (hashes & _LOW)[numbers]
        rows: IntArray = (entries[hit] & _LOW).astype(np.int64)
        return numbers[hit], rows, covered


def replaced_rows(
    hashes: HashArray, rows: IntArray, same: Callable[[IntArray, IntArray], BoolArray]
) -> IntArray:
    """Returns the rows after which another one with an equal key follows.

    `rows` are in ascending order; `same` compares the keys of two lists of rows."""
    order = np.argsort(hashes, kind="stable")
    hashes, rows = hashes[order], rows[order]
    repeats = np.flatnonzero(hashes[1:] == hashes[:-1])
    if not len(repeats):
        return rows[:0]
    equal = same(rows[repeats], rows[repeats + 1])
    if equal.all():
        return rows[repeats]
    # Different keys have one hash: all pairs of these rows are looked at.
    runs = np.unique(hashes[repeats])
    found: list[int] = []
    for value in runs:
        run = rows[np.searchsorted(hashes, value) : np.searchsorted(hashes, value, side="right")]
        for at, row in enumerate(run[:-1]):
            later = run[at + 1 :]
            if same(np.full(len(later), row), later).any():
                found.append(int(row))
    return np.array(found, np.int64)
