"""Look-ups in tables that are asked for the rows of the keys which come."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, Self

import numpy as np
import pyarrow as pa
from xxhash import xxh3_128_hexdigest

from parser.types import Schema
from planner.logical import AskedScan, LookupJoin
from sqlengine.batch import Batch, IntArray
from sqlengine.dimensions.hashing import same_values
from sqlengine.functions.answers import Answer, present_answers
from sqlengine.functions.protocol import batch_blob, read_batch
from sqlengine.operators.base import DEAD_LETTER, Context
from sqlengine.operators.joins.rows import pair_ranges
from sqlengine.state.keys import encode

_OF: Final = "#of"
_LETTER: Final = DEAD_LETTER.arrow
# The slot of key 0 where its rows cannot be had; those of the next keys are below it.
_FIRST_PROBLEM: Final = -2


@dataclass(frozen=True)
class Questions:
    """Distinct keys: their canonical bytes, and their values, an array for each column."""

    keys: Sequence[bytes]
    columns: Sequence[pa.Array]

    def take(self, numbers: IntArray) -> Questions:
        """Returns those of these numbers."""
        index = pa.array(numbers)
        keys = [self.keys[i] for i in numbers.tolist()]
        return Questions(keys, [c.take(index) for c in self.columns])


@dataclass(frozen=True)
class Answered:
    """Rows that were found, by columns; `of`: the number of each one's key, in order. `letters`:
    what was found and is no row; `asked`: for so many keys the table was asked; `problems`: why the
    rows of keys, by their numbers, cannot be had."""

    columns: Sequence[pa.Array]
    of: IntArray
    letters: Sequence[Batch] = ()
    asked: int = 0
    problems: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def empty(cls, schema: Schema) -> Self:
        """Returns no rows."""
        return cls([pa.nulls(0, c.type.arrow) for c in schema], np.zeros(0, np.int64))

    def joined(self, other: Answered) -> Answered:
        """Returns the rows of both, in the order of their keys."""
        columns, of = other.columns, other.of
        if len(self.of):
            of = np.concatenate([self.of, of])
            columns = [pa.concat_arrays(p) for p in zip(self.columns, columns, strict=True)]
        if (of[1:] < of[:-1]).any():
            order = np.argsort(of, kind="stable")
            columns, of = [c.take(pa.array(order)) for c in columns], of[order]
        problems = {**self.problems, **other.problems} if other.problems else self.problems
        letters = (*self.letters, *other.letters)
        return Answered(columns, of, letters, self.asked + other.asked, problems)

    def renumbered(self, numbers: IntArray) -> Answered:
        """Returns the rows where key 0 is the first of these numbers, key 1 the second, ..."""
        problems = {int(numbers[n]): problem for n, problem in self.problems.items()}
        return replace(self, of=numbers[self.of], problems=problems)

    def answered(self, count: int) -> IntArray:
        """Returns the numbers of those of `count` keys whose rows are known."""
        return np.setdiff1d(np.arange(count), list(self.problems))


class Asker(Protocol):
    """Asks a table for rows."""

    def rows_of(self, questions: Questions, proceed: Callable[[], None]) -> Answered:
        """Returns all rows of distinct keys, in the order of the keys; calls `proceed`, which may
        raise, while it waits. OutOfReach where the table cannot be asked."""

    def close(self) -> None: ...


class AskedDimension:
    """The rows that a table has for the keys of a batch.

    No state: what the table answers in an epoch is written down with it, as the answers of
    nondeterministic functions are, so that its repetition finds the same rows."""

    def __init__(self, node: LookupJoin, asker: Asker) -> None:
        scan = node.right
        assert isinstance(scan, AskedScan)
        self.schema = scan.schema
        self.name = scan.table.display
        self._digest = scan.digest
        self._asker = asker
        strict = [(e.right, i) for i, e in enumerate(node.equalities) if not e.null_safe]
        # Of several with one column the first: the table is asked by what is no NULL.
        places = dict(reversed(strict))
        self._by = [places[k] for k in scan.keys]
        self._types = [self.schema.type(k) for k in scan.keys]
        # The equalities by which the table is not asked.
        self._others = [
            (i, e.right, e.null_safe) for i, e in enumerate(node.equalities) if i not in self._by
        ]
        self._found = Answered.empty(self.schema)
        self._letters: list[Batch] = []

    @property
    def rows(self) -> Self:
        """Finds the rows by their keys."""
        return self

    def open(self, context: Context) -> None:
        self._proceed, self._counters = context.check_step, context.counters

    def change(self, batch: Batch) -> None:
        raise AssertionError("nothing comes from a table that is asked")

    def column(self, name: str, slots: IntArray) -> pa.Array:
        """Returns a column of rows that were found last; -1: no row."""
        places = pa.array(slots, mask=slots < 0)
        return self._found.columns[self.schema.index(name)].take(places)

    def letters(self) -> list[Batch]:
        """Returns what was found and is no row, once."""
        letters, self._letters = self._letters, []
        return letters

    def problem(self, slot: int) -> str:
        """Returns why the rows of a key, which has a pair with this slot below -1, cannot be
        had."""
        return self._found.problems[_FIRST_PROBLEM - slot]

    def first_matches(
        self, key: Sequence[pa.Array], num_rows: int, most: int | None
    ) -> tuple[IntArray, IntArray, int]:
        """Returns the pairs of a key's number and a row for the first keys, at most `most`, and how
        many keys are covered; never splits a key. A key whose rows cannot be had has one pair, see
        `problem`."""
        columns = [key[i] for i in self._by]
        encoded = encode(self._types, columns, num_rows)
        numbers: dict[bytes, int] = {}
        firsts: list[int] = []
        for row, text in enumerate(encoded):
            if text not in numbers:
                numbers[text] = len(firsts)
                firsts.append(row)
        places = pa.array(firsts, pa.int64())
        questions = Questions(list(numbers), [c.take(places) for c in columns])
        self._found = self._answered(questions)
        return self._pairs(key, np.array([numbers[t] for t in encoded], np.int64), most)

    def _pairs(
        self, key: Sequence[pa.Array], of: IntArray, most: int | None
    ) -> tuple[IntArray, IntArray, int]:
        starts = np.searchsorted(self._found.of, of)
        counts = np.searchsorted(self._found.of, of, side="right") - starts
        covered = len(of)
        if most is not None and len(of):
            covered = next(iter(pair_ranges(counts)))[1] if counts.sum() > most else covered
        counts, starts = counts[:covered], starts[:covered]
        rows = np.repeat(np.arange(covered), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        slots = np.repeat(starts, counts) + within
        for i, name, null_safe in self._others:
            here, there = key[i].take(pa.array(rows)), self.column(name, slots)
            equal = same_values(self.schema.type(name), here, there, nulls_are_equal=null_safe)
            rows, slots = rows[equal], slots[equal]
        if self._found.problems:
            bad = np.flatnonzero(np.isin(of[:covered], list(self._found.problems)))
            rows = np.concatenate([rows, bad])
            slots = np.concatenate([slots, _FIRST_PROBLEM - of[bad]])
        return rows, slots, covered

    def _answered(self, questions: Questions) -> Answered:
        """Returns the rows of these keys: those of before, where an epoch is repeated."""
        answers = present_answers()
        if answers is None:
            return self._asked(questions)
        request = xxh3_128_hexdigest(b"\0".join([self._digest.encode(), *questions.keys]))
        known = answers.again(request)
        if known is not None:
            ((_, _, blobs),) = known.parts
            return self._kept(_decoded(self.schema, *blobs))
        if not answers.whole:
            answers.missing = True
            return Answered.empty(self.schema)
        found = self._asked(questions)
        part = (0, len(questions.keys), _encoded(self.schema, found))
        answers.fresh.append(Answer(request, (part,), ()))
        return found

    def _asked(self, questions: Questions) -> Answered:
        found = self._asker.rows_of(questions, self._proceed)
        self._counters["lookup_keys"] += len(questions.keys)
        self._counters["lookup_keys_asked"] += found.asked
        return self._kept(found)

    def _kept(self, found: Answered) -> Answered:
        self._letters += found.letters
        return found

    def close(self) -> None:
        self._asker.close()


def _with_of(schema: Schema) -> pa.Schema:
    return schema.arrow.append(pa.field(_OF, pa.int64()))


def _encoded(schema: Schema, found: Answered) -> tuple[bytes, ...]:
    """Returns the rows, the letters and the problems as they are written down."""
    columns = [*found.columns, pa.array(found.of)]
    rows = pa.RecordBatch.from_arrays(columns, schema=_with_of(schema))
    parts = [pa.RecordBatch.from_arrays(b.columns, schema=_LETTER) for b in found.letters]
    letters = [batch_blob(pa.concat_batches(parts)).to_pybytes()] if parts else [b""]
    problems = [json.dumps(list(found.problems.items())).encode()] if found.problems else []
    return batch_blob(rows).to_pybytes(), *letters, *problems


def _decoded(schema: Schema, rows: bytes, letters: bytes, problems: bytes = b"[]") -> Answered:
    *columns, of = read_batch(pa.py_buffer(rows), _with_of(schema)).columns
    found = Answered(columns, of.to_numpy(), problems=dict(json.loads(problems)))
    if not letters:
        return found
    kept = read_batch(pa.py_buffer(letters), _LETTER)
    return replace(found, letters=(Batch(DEAD_LETTER, tuple(kept.columns), kept.num_rows),))
