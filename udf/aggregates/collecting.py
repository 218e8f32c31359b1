"""Aggregates that keep all values: `Gather`, LISTAGG, COLLECT, ARRAY_AGG, SINGLE_VALUE. Several
arguments of one come as a ROW."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import STRING, DataType, Root, TimeAttribute, array, row
from udf.aggregates.accumulators import Accumulator, Aggregate, Slots
from udf.aggregates.registry import define, refusal
from udf.aggregates.sorted_multiset import (
    change_counts,
    entries,
    kept_type,
    merge_counts,
    ordered,
    restored,
    storable,
    stored_type,
)
from udf.arrays.arrays import valid
from udf.bounds import measured
from udf.java.hash_maps import flink_text_hash, in_table_order
from udf.vector import BoolArray, Errors, Vector, merge_errors

Values: TypeAlias = list[Any]
# What a group's values come to.
Finish: TypeAlias = Callable[[Values], object]


# So many values become Python's objects in one call.
_AT_ONCE: Final = 4096


def within_bounds(name: str, found: Vector) -> pa.Array | Vector:
    """The results of an aggregate; those that are longer than 'value-size' are errors."""
    vector = measured(name, found, 1)
    return vector.values if vector.errors is None else vector


@dataclass(frozen=True)
class Gather:
    """Keeps all values (`nulls`: NULL too) in the order in which they come; `finish` makes the
    result of them. `prepare` turns the argument into what is kept. The result over nothing is NULL,
    or (`always`) what `finish` makes of nothing. Values of which `finish` cannot make one raise a
    ValueError that says why: an error of the group."""

    result_type: DataType
    kept: DataType
    finish: Finish
    prepare: Callable[[pa.Array], pa.Array] = storable
    nulls: bool = False
    always: bool = False
    retractable: bool = False
    name: str = ""

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("values", kept_type(self.kept) if self.retractable else array(self.kept)),)

    def _rows(
        self, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> Iterable[tuple[int, object]]:
        if values is None:
            raise ValueError("the aggregate has an argument")
        # NULL counts only where the aggregate keeps it (ARRAY_AGG, JSON_ARRAYAGG NULL ON NULL).
        keep = selected if self.nulls else selected & valid(values, len(values))
        return self._kept(slots, values, keep)

    def _kept(
        self, slots: Slots, values: pa.Array, keep: BoolArray
    ) -> Iterator[tuple[int, object]]:
        """Yields the rows of `keep`. Few at a time are made Python's objects, since other threads
        wait for that."""
        rows = np.flatnonzero(keep)
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            prepared = self.prepare(values.take(pa.array(part)))
            yield from zip(slots[part].tolist(), prepared.to_pylist(), strict=True)

    def _listed(self, acc: Accumulator, slot: int) -> Values:
        """The slot's list, which is made when there is none."""
        if acc["values"][slot] is None:
            acc["values"][slot], acc["values?"][slot] = [], True
        texts: Values = acc["values"][slot]
        return texts

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        if self.retractable:
            for slot, value in self._rows(slots, values, selected):
                ordered(acc, "values", slot).add(value)
            return
        for slot, value in self._rows(slots, values, selected):
            self._listed(acc, slot).append(value)

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        if not self.retractable:
            raise NotImplementedError("the aggregate was not bound to take rows back")
        for slot, value in self._rows(slots, values, selected):
            ordered(acc, "values", slot).take(value)

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        for slot, at in zip(slots.tolist(), others.tolist(), strict=True):
            # A slot of the other that has seen nothing leaves this one as it was.
            more = other["values"][at]
            if more is None:
                continue
            if self.retractable:
                ordered(acc, "values", slot).extend(entries(more))
            else:
                self._listed(acc, slot).extend(more)

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array | Vector:
        found: list[object] = [None] * len(slots)
        failed: list[Errors | None] = []
        for i, slot in enumerate(slots.tolist()):
            try:
                found[i] = self._finished(acc, slot)
            except ValueError as error:
                # An error is of one slot: the others of the batch keep their results.
                failed.append(Errors.where(np.arange(len(slots)) == i, str(error)))
        values = restored(
            pa.array(found, stored_type(self.result_type.with_nullable(True)).arrow),
            self.result_type,
        )
        return within_bounds(self.name, Vector(values, merge_errors(failed)))

    def _finished(self, acc: Accumulator, slot: int) -> object:
        values = (
            ordered(acc, "values", slot).values()
            if self.retractable
            else list(acc["values"][slot] or ())
        )
        return self.finish(values) if values or self.always else None


@dataclass(frozen=True)
class Collect:
    """COLLECT: the values that are not NULL with their numbers."""

    result_type: DataType
    retractable: bool = True

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("values", kept_type(self.result_type.children[0])),)

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        change_counts(acc, "values", slots, values, selected, 1)

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        change_counts(acc, "values", slots, values, selected, -1)

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        merge_counts(acc, "values", slots, other, others)

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array | Vector:
        found = [
            [(v, n) for v, n in entries(acc["values"][slot]) if n > 0] for slot in slots.tolist()
        ]
        # Flink's COLLECT shows a Java map; the order of other types' hashes is not computed.
        if self.result_type.children[0].is_string:
            found = [in_table_order(pairs, flink_text_hash) for pairs in found]
        values = restored(pa.array(found, stored_type(self.result_type).arrow), self.result_type)
        return within_bounds("COLLECT", Vector(values))


def _plain(types: Sequence[DataType]) -> DataType:
    return types[0].as_attribute(TimeAttribute.NONE)


def one_value(name: str, types: Sequence[DataType]) -> DataType:
    """Returns the type of the only argument; PlanError if there are others."""
    if len(types) != 1 or types[0].root is Root.NULL:
        raise refusal(name, types, "one value expected")
    return _plain(types)


def _joined(values: Values) -> str:
    # A separator belongs to the text behind it: the first one's is not written.
    return str(values[0]["f0"]) + "".join(v["f1"] + v["f0"] for v in values[1:])


PAIR = row(("f0", "f1"), (STRING, STRING))


def _with_separator(values: pa.Array) -> pa.Array:
    if pa.types.is_struct(values.type):
        columns = [pc.struct_field(values, 0), pc.struct_field(values, 1)]
    else:
        columns = [values, pa.repeat(pa.scalar(","), len(values))]
    columns = [c.cast(pa.string()) for c in columns]
    # A NULL text counts for nothing, whatever its separator is.
    return pa.StructArray.from_arrays(columns, ["f0", "f1"]).filter(columns[0].is_valid())


@dataclass(frozen=True)
class _ListAgg(Gather):
    """LISTAGG: a row whose text is NULL counts for nothing."""

    def _rows(
        self, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> Iterable[tuple[int, object]]:
        if values is None:
            raise ValueError("LISTAGG has an argument")
        text = pc.struct_field(values, 0) if pa.types.is_struct(values.type) else values
        return self._kept(slots, values, selected & valid(text, len(text)))


def _listagg(types: Sequence[DataType], retract: bool) -> Aggregate:
    parts = types[0].children if types and types[0].root is Root.ROW else types
    if not 1 <= len(parts) <= 2 or not all(p.is_string for p in parts):
        raise refusal("LISTAGG", types, "a string and a separator expected")
    return _ListAgg(
        parts[0].as_attribute(TimeAttribute.NONE),
        PAIR,
        _joined,
        _with_separator,
        retractable=retract,
        name="LISTAGG",
    )


def _collect(types: Sequence[DataType], retract: bool) -> Aggregate:
    return Collect(DataType(Root.MULTISET, children=(one_value("COLLECT", types),), nullable=False))


def _array_agg(types: Sequence[DataType], retract: bool) -> Aggregate:
    element = one_value("ARRAY_AGG", types)
    result = array(element).with_nullable(element.nullable)
    return Gather(
        result, stored_type(element), list, nulls=True, retractable=retract, name="ARRAY_AGG"
    )


def _single_value(types: Sequence[DataType], retract: bool) -> Aggregate:
    t = one_value("SINGLE_VALUE", types)
    return Gather(t.with_nullable(True), stored_type(t), _only, nulls=True, retractable=retract)


def _only(values: Values) -> object:
    if len(values) > 1:
        raise ValueError("SINGLE_VALUE is of more than one row")
    return values[0]


define(
    "LISTAGG",
    factory=_listagg,
    doc=(
        "LISTAGG([DISTINCT] text [, separator]): the texts that are not NULL joined, by ',' by"
        " default."
    ),
)
define(
    "COLLECT",
    factory=_collect,
    doc=(
        "COLLECT([DISTINCT] value): the values that are not NULL as a MULTISET, each with its"
        " number."
    ),
)
define(
    "ARRAY_AGG",
    factory=_array_agg,
    doc=(
        "ARRAY_AGG([DISTINCT] value): the values as an array, NULL too, in the order in which rows"
        " come."
    ),
)
define(
    "SINGLE_VALUE",
    factory=_single_value,
    doc="SINGLE_VALUE(value): the only value, NULL of no rows; several rows are an error.",
)
