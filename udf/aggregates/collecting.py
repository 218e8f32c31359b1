"""Aggregates that keep values: FIRST_VALUE, LAST_VALUE, LISTAGG, COLLECT, ARRAY_AGG, JSON_ARRAYAGG,
JSON_OBJECTAGG, SINGLE_VALUE, PERCENTILE. Several arguments of one come as a ROW."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.types import BIGINT, DOUBLE, STRING, DataType, Root, TimeAttribute, array, row, varchar
from udf.aggregates.accumulators import Accumulator, Aggregate, Slots, to_arrow_column, to_numpy
from udf.aggregates.registry import Factory, define, refusal
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
from udf.casts.cast import convert
from udf.java.hash_maps import flink_text_hash, in_table_order
from udf.json.writing import check_json, json_column, json_object
from udf.vector import BoolArray, Errors, Vector, merge_errors

Values: TypeAlias = list[Any]
# What a group's values come to.
Finish: TypeAlias = Callable[[Values], object]


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
        return zip(
            slots[keep].tolist(),
            self.prepare(values.filter(pa.array(keep))).to_pylist(),
            strict=True,
        )

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
        return Vector(values, merge_errors(failed)) if failed else values

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

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        found = [
            [(v, n) for v, n in entries(acc["values"][slot]) if n > 0] for slot in slots.tolist()
        ]
        # Flink's COLLECT shows a Java map; the order of other types' hashes is not computed.
        if self.result_type.children[0].is_string:
            found = [in_table_order(pairs, flink_text_hash) for pairs in found]
        return restored(pa.array(found, stored_type(self.result_type).arrow), self.result_type)


@dataclass(frozen=True)
class End:
    """FIRST_VALUE and LAST_VALUE of what is not NULL, in the order in which rows come."""

    result_type: DataType
    last: bool
    retractable: bool = False

    @property
    def accumulators(self) -> tuple[tuple[str, DataType], ...]:
        return (("value", self.result_type.plain),)

    def update(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        if values is None:
            raise ValueError("FIRST_VALUE and LAST_VALUE have an argument")
        keep = np.flatnonzero(selected & valid(values, len(values)))
        # Of several writes to one slot the last one stays.
        order = keep if self.last else keep[::-1]
        # FIRST_VALUE writes from the last row to the first, and only to slots that have no value
        # yet.
        order = order if self.last else order[~acc["value?"][slots[order]].astype(np.bool_)]
        values_in_order = to_numpy(values.take(pa.array(order)))
        acc["value"][slots[order]] = values_in_order
        acc["value?"][slots[order]] = True

    def retract(
        self, acc: Accumulator, slots: Slots, values: pa.Array | None, selected: BoolArray
    ) -> None:
        raise NotImplementedError("FIRST_VALUE and LAST_VALUE were not bound to take rows back")

    def merge(self, acc: Accumulator, slots: Slots, other: Accumulator, others: Slots) -> None:
        takes = other["value?"][others].astype(np.bool_)
        # The rows of `others` come behind those of `slots`.
        takes &= True if self.last else ~acc["value?"][slots].astype(np.bool_)
        acc["value"][slots[takes]] = other["value"][others[takes]]
        acc["value?"][slots[takes]] = True

    def result(self, acc: Accumulator, slots: Slots) -> pa.Array:
        return to_arrow_column(
            acc["value"][slots], acc["value?"][slots].astype(np.bool_), self.result_type
        )


@dataclass(frozen=True)
class RetractableEnd(Gather):
    """FIRST_VALUE and LAST_VALUE where values are taken back: of those that are left."""

    last: bool = False

    def _finished(self, acc: Accumulator, slot: int) -> object:
        values = ordered(acc, "values", slot)
        return values.last() if self.last else values.first()


def _plain(types: Sequence[DataType]) -> DataType:
    return types[0].as_attribute(TimeAttribute.NONE)


def _one(name: str, types: Sequence[DataType]) -> DataType:
    if len(types) != 1 or types[0].root is Root.NULL:
        raise refusal(name, types, "one value expected")
    return _plain(types)


def _end(name: str, *, last: bool) -> Factory:
    def bind(types: Sequence[DataType], retract: bool) -> Aggregate:
        t = _one(name, types)
        return (
            RetractableEnd(t, t.plain, list, retractable=True, last=last)
            if retract
            else End(t, last)
        )

    return bind


def _joined(values: Values) -> str:
    # A separator belongs to the text behind it: the first one's is not written.
    return str(values[0]["f0"]) + "".join(v["f1"] + v["f0"] for v in values[1:])


_TEXT_PAIR = row(("f0", "f1"), (STRING, STRING))


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
        keep = selected & valid(text, len(text))
        return zip(
            slots[keep].tolist(),
            self.prepare(values.filter(pa.array(keep))).to_pylist(),
            strict=True,
        )


def _listagg(types: Sequence[DataType], retract: bool) -> Aggregate:
    parts = types[0].children if types and types[0].root is Root.ROW else types
    if not 1 <= len(parts) <= 2 or not all(p.is_string for p in parts):
        raise refusal("LISTAGG", types, "a string and a separator expected")
    return _ListAgg(
        parts[0].as_attribute(TimeAttribute.NONE),
        _TEXT_PAIR,
        _joined,
        _with_separator,
        retractable=retract,
    )


def _collect(types: Sequence[DataType], retract: bool) -> Aggregate:
    return Collect(DataType(Root.MULTISET, children=(_one("COLLECT", types),), nullable=False))


def _array_agg(types: Sequence[DataType], retract: bool) -> Aggregate:
    element = _one("ARRAY_AGG", types)
    result = array(element).with_nullable(element.nullable)
    return Gather(result, stored_type(element), list, nulls=True, retractable=retract)


_JSON = varchar(2000).with_nullable(False)


def _json_array(absent: bool) -> Factory:
    def bind(types: Sequence[DataType], retract: bool) -> Aggregate:
        element = _one("JSON_ARRAYAGG", types)
        check_json(element)
        return Gather(
            _JSON,
            STRING,
            lambda values: f"[{','.join(v or 'null' for v in values)}]",
            lambda values: json_column(values, element),
            nulls=not absent,
            always=True,
            retractable=retract,
        )

    return bind


def _json_object(absent: bool) -> Factory:
    def bind(types: Sequence[DataType], retract: bool) -> Aggregate:
        if len(types) != 1 or types[0].root is not Root.ROW or not types[0].children[0].is_string:
            raise refusal("JSON_OBJECTAGG", types, "a key, which is a string, and a value expected")
        value = types[0].children[1]
        check_json(value)

        def prepare(values: pa.Array) -> pa.Array:
            texts = json_column(pc.struct_field(values, 1), value)
            return pa.StructArray.from_arrays([pc.struct_field(values, 0), texts], ["f0", "f1"])

        def finish(values: Values) -> str:
            members: dict[str, str | None] = {}
            for v in values:
                if v["f0"] is None:
                    raise ValueError("a key of JSON_OBJECTAGG is NULL")
                if v["f0"] in members:
                    raise ValueError(f"the key '{v['f0']}' of JSON_OBJECTAGG is there already")
                members[v["f0"]] = v["f1"]
            return json_object(
                {k: t or "null" for k, t in members.items() if t is not None or not absent}
            )

        return Gather(_JSON, _TEXT_PAIR, finish, prepare, always=True, retractable=retract)

    return bind


def _single_value(types: Sequence[DataType], retract: bool) -> Aggregate:
    t = _one("SINGLE_VALUE", types)
    return Gather(t.with_nullable(True), stored_type(t), _only, nulls=True, retractable=retract)


def _only(values: Values) -> object:
    if len(values) > 1:
        raise ValueError("SINGLE_VALUE is of more than one row")
    return values[0]


def _percentile(types: Sequence[DataType], retract: bool) -> Aggregate:
    parts = types[0].children if types and types[0].root is Root.ROW else ()
    several = len(parts) > 1 and parts[1].root is Root.ARRAY
    asked = parts[1].children[0] if several else parts[1] if len(parts) > 1 else None
    given = asked is not None and asked.is_numeric and not asked.nullable and not parts[1].nullable
    fits = len(parts) in (2, 3) and parts[0].is_numeric and given
    if not fits or (len(parts) == 3 and not parts[2].is_integer):
        raise refusal(
            "PERCENTILE",
            types,
            "a number, a share or an array of them, never NULL, and a frequency expected",
        )
    kept = row(("f0", "f1", "f2"), (DOUBLE, array(DOUBLE), BIGINT))
    result = array(DOUBLE) if several else DOUBLE
    finish, prepare = partial(_percentiles, several=several), partial(_measured, types=parts)
    return Gather(result, kept, finish, prepare, retractable=retract)


def _measured(values: pa.Array, types: Sequence[DataType]) -> pa.Array:
    """Doubles as CAST makes them: Arrow's own cast of a DECIMAL multiplies, and 0.3 is not the
    double nearest to it."""
    wanted = array(DOUBLE) if types[1].root is Root.ARRAY else DOUBLE
    number, asked = (
        convert(pc.struct_field(values, i), types[i], t).values
        for i, t in enumerate((DOUBLE, wanted))
    )
    if wanted is DOUBLE:
        asked = pa.ListArray.from_arrays(pa.array(range(len(asked) + 1), pa.int32()), asked)
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(values))
    often = pc.struct_field(values, 2).cast(pa.int64()) if len(types) > 2 else ones
    return pa.StructArray.from_arrays(
        [number, asked.cast(pa.list_(pa.float64())), often], ["f0", "f1", "f2"]
    )


def _percentiles(values: Values, several: bool) -> object:
    present = ((v["f0"], v["f2"]) for v in values if v["f0"] is not None and (v["f2"] or 0) > 0)
    counted = sorted(present, key=lambda pair: _java_order(pair[0]))
    asked = values[-1]["f1"]
    if not counted or any(p is None or not 0 <= p <= 1 for p in asked):
        return None
    ends = np.cumsum([count for _, count in counted])
    percentiles = [_percentile_at(counted, ends, p) for p in asked]
    return percentiles if several else percentiles[0]


def _java_order(number: float) -> tuple[bool, float, bool]:
    """-0.0 is less than 0.0, and NaN the greatest."""
    return number != number, 0.0 if number != number else number, math.copysign(1, number) > 0


def _percentile_at(
    counted: list[tuple[float, int]], ends: np.ndarray[Any, Any], share: float
) -> float:
    """Between the two values around the place, in proportion. Places begin with 1, as in Flink,
    which shows in the last digit."""
    place = (int(ends[-1]) - 1) * share + 1
    below, above = math.floor(place), math.ceil(place)
    first, second = (counted[int(np.searchsorted(ends, at))][0] for at in (below, above))
    return first if below == above else (above - place) * first + (place - below) * second


define(
    "FIRST_VALUE",
    factory=_end("FIRST_VALUE", last=False),
    doc="FIRST_VALUE(value): the first value that is not NULL, in the order in which rows come.",
)
define(
    "LAST_VALUE",
    factory=_end("LAST_VALUE", last=True),
    doc="LAST_VALUE(value): the last value that is not NULL, in the order in which rows come.",
)
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
    "JSON_ARRAYAGG",
    "JSON_ARRAYAGG ABSENT",
    factory=_json_array(absent=True),
    doc=(
        "JSON_ARRAYAGG(value [NULL | ABSENT ON NULL]): the values as a JSON array; NULL is left out"
        " by default."
    ),
)
define("JSON_ARRAYAGG NULL", factory=_json_array(absent=False))
define(
    "JSON_OBJECTAGG",
    "JSON_OBJECTAGG NULL",
    factory=_json_object(absent=False),
    doc=(
        "JSON_OBJECTAGG([KEY] key VALUE value [NULL | ABSENT ON NULL]): a JSON object of these"
        " members; equal keys, and NULL as a key, are errors; NULL stays by default."
    ),
)
define("JSON_OBJECTAGG ABSENT", factory=_json_object(absent=True))
define(
    "SINGLE_VALUE",
    factory=_single_value,
    doc="SINGLE_VALUE(value): the only value, NULL of no rows; several rows are an error.",
)
define(
    "PERCENTILE",
    factory=_percentile,
    doc=(
        "PERCENTILE(number, percentage [, frequency]): the value below which this share (0 to 1, or"
        " an array of them) of the numbers lies, between two of them in proportion; a number counts"
        " `frequency` times."
    ),
)
