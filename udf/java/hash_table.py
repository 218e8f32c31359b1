"""The order of a Java hash table, in which Flink hands on values that it kept apart
(`udf.aggregates.buffered`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parser.types import DataType, Root

_MASK = 0xFFFFFFFF
_SEED = 42
_LOAD = 0.75  # how full a table may be before it doubles
_INLINE = 7  # bytes of a text that stand in a row's own word

Hash = Callable[[Any], int]


def hash_of(t: DataType) -> Hash:
    """Returns Flink's hash function for values of the type, unsigned; NULL is 0.

    Values are in their stored form (`udf.aggregates.sorted_multiset`). Values of types whose hash
    is not known here stay in the order in which they came."""
    if t.is_string:
        return lambda value: 0 if value is None else murmur(value.encode())
    if t.root is Root.BOOLEAN:
        return lambda value: 0 if value is None else 1231 if value else 1237
    if t.is_integer:
        # An INT hashes to its own bits, a BIGINT folds its halves; both masks make the result
        # unsigned.
        wide = t.root is Root.BIGINT
        return lambda value: 0 if value is None else _of_long(value) if wide else value & _MASK
    if t.root is Root.ROW and all(c.is_string for c in t.children):
        return lambda value: murmur(_binary_row(value))
    # An equal hash for all leaves the sort of `in_table_order` nothing to move.
    return lambda value: 0


def in_table_order(values: Sequence[Any], hashed: Hash) -> list[Any]:
    """Distinct values, given in the order in which they were put there, as a Java HashMap lists
    them."""
    size = 16
    while len(values) > size * _LOAD:
        size *= 2

    def bucket(value: Any) -> int:
        code = hashed(value)
        # As in HashMap the high bits are spread into the low ones, which alone choose the bucket.
        return (code ^ code >> 16) & (size - 1)

    # Stable: values of one bucket stay in the order of their insertion.
    return sorted(values, key=bucket)


def murmur(data: bytes) -> int:
    """Murmur3 of 32 bits as Flink computes it: the bytes behind the last whole word are mixed in
    one by one, as signed."""
    whole = len(data) - len(data) % 4
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, whole, 4)]
    code = _SEED
    # Mask after the sign: -1 becomes 0xFFFFFFFF, as Java's int would be.
    for word in (*words, *((b - 256 if b > 127 else b) & _MASK for b in data[whole:])):
        code ^= _turned(word * 0xCC9E2D51, 15) * 0x1B873593 & _MASK
        code = _turned(code, 13) * 5 + 0xE6546B64 & _MASK
    code ^= len(data)
    code = (code ^ code >> 16) * 0x85EBCA6B & _MASK
    code = (code ^ code >> 13) * 0xC2B2AE35 & _MASK
    return code ^ code >> 16


def _turned(word: int, by: int) -> int:
    word &= _MASK
    return (word << by | word >> 32 - by) & _MASK


def _of_long(value: int) -> int:
    unsigned = value & 0xFFFFFFFFFFFFFFFF
    return (unsigned ^ unsigned >> 32) & _MASK


def _binary_row(fields: Mapping[str, str | None] | Sequence[str | None]) -> bytes:
    """A row of texts as Flink's BinaryRow has it: a word of flags (the first byte is the kind of
    change), a word for each field, then the texts that are longer than a word, each filled up with
    zeros."""
    texts = list(fields.values()) if isinstance(fields, Mapping) else list(fields)
    # The first byte of the flags is the kind of change, hence the shift by eight.
    flags = sum(1 << 8 + i for i, text in enumerate(texts) if text is None)
    words, behind = [flags.to_bytes(8, "little")], b""
    for text in texts:
        data = (text or "").encode()
        # A NULL field is a word of zeros, and its flag tells it from an empty text.
        if text is None:
            words.append(bytes(8))
        elif len(data) <= _INLINE:
            # Inline: up to seven bytes, and in the eighth the length under a set high bit.
            words.append(data + bytes(_INLINE - len(data)) + bytes([0x80 | len(data)]))
        else:
            # Offset and length of the text in one word; the offset counts from the start of the
            # row, behind the flags and a word for each field.
            place = 8 * (len(texts) + 1) + len(behind)
            words.append((place << 32 | len(data)).to_bytes(8, "little"))
            # Each text in the tail begins at a multiple of eight bytes.
            behind += data + bytes(-len(data) % 8)
    return b"".join(words) + behind
