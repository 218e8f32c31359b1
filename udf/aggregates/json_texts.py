"""JSON_ARRAYAGG and JSON_OBJECTAGG: the values of a group as a JSON text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parser.types import STRING, DataType, Root, varchar
from udf.aggregates.accumulators import Aggregate
from udf.aggregates.collecting import PAIR, Gather, Values, one_value
from udf.aggregates.registry import Factory, define, refusal
from udf.json.writing import check_json, json_column, json_object

_JSON = varchar(2000).with_nullable(False)


def _json_array(absent: bool) -> Factory:
    def bind(types: Sequence[DataType], retract: bool) -> Aggregate:
        element = one_value("JSON_ARRAYAGG", types)
        check_json(element)
        return Gather(
            _JSON,
            STRING,
            lambda values: f"[{','.join(v or 'null' for v in values)}]",
            lambda values: json_column(values, element),
            nulls=not absent,
            always=True,
            retractable=retract,
            name="JSON_ARRAYAGG",
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

        return Gather(
            _JSON, PAIR, finish, prepare, always=True, retractable=retract, name="JSON_OBJECTAGG"
        )

    return bind


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
