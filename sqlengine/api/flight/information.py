"""CommandGetSqlInfo and CommandGetXdbcTypeInfo: what drivers want to know of a server and of its
types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from parser.grammar.reserved import RESERVED
from sqlengine.system.data_folder import VERSION

_VALUE: Final = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.string())),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
    ]
)
_STRING, _BOOL, _BIGINT, _LIST = 0, 1, 2, 4
# Number of an information -> its value; FlightSql.proto has the names.
_INFO: Final[dict[int, str | bool | int | list[str]]] = {
    0: "sqlengine",
    1: VERSION,
    2: pa.__version__,
    3: False,  # not read only
    4: True,  # SQL
    5: False,  # no Substrait
    8: 0,  # no transactions
    9: True,  # queries can be cancelled
    10: True,  # rows can be put into tables
    11: False,
    500: False,
    501: False,
    502: True,  # CREATE TABLE
    503: 1,  # names are as they are written
    504: "`",
    505: 1,
    506: True,
    507: 1,  # NULL first
    508: sorted(RESERVED),
    509: [],
    510: [],
    511: [],
    512: [],
    513: "",
    514: "",
    515: True,
    516: True,
    517: True,
}
INFO_SCHEMA: Final = pa.schema(
    [pa.field("info_name", pa.uint32(), False), pa.field("value", _VALUE, False)]
)


def sql_info(wanted: Sequence[int]) -> pa.Table:
    """Returns the values of information by number, of all that there is for none."""
    found = {n: v for n, v in _INFO.items() if not wanted or n in wanted}
    kinds = [_kind(v) for v in found.values()]
    parts: list[list[object]] = [[] for _ in range(_VALUE.num_fields)]
    offsets = []
    for kind, value in zip(kinds, found.values(), strict=True):
        offsets.append(len(parts[kind]))
        parts[kind].append(value)
    fields = [_VALUE.field(i) for i in range(_VALUE.num_fields)]
    values = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(p, f.type) for p, f in zip(parts, fields, strict=True)],
        [f.name for f in fields],
    )
    return pa.Table.from_arrays([pa.array(list(found), pa.uint32()), values], schema=INFO_SCHEMA)


def _kind(value: object) -> int:
    match value:
        case bool():
            return _BOOL
        case str():
            return _STRING
        case int():
            return _BIGINT
    return _LIST


# Name, number of XDBC (that of java.sql.Types), size of a column, prefix and suffix of literals.
_TYPES: Final = (
    ("BOOLEAN", -7, 1, None, None),
    ("TINYINT", -6, 3, None, None),
    ("SMALLINT", 5, 5, None, None),
    ("INT", 4, 10, None, None),
    ("BIGINT", -5, 19, None, None),
    ("FLOAT", 6, 24, None, None),
    ("DOUBLE", 8, 53, None, None),
    ("DECIMAL", 3, 38, None, None),
    ("CHAR", 1, 2147483647, "'", "'"),
    ("STRING", 12, 2147483647, "'", "'"),
    ("BYTES", -3, 2147483647, "X'", "'"),
    ("DATE", 91, 10, "DATE '", "'"),
    ("TIME", 92, 12, "TIME '", "'"),
    ("TIMESTAMP", 93, 29, "TIMESTAMP '", "'"),
)
TYPES_SCHEMA: Final = pa.schema(
    [
        pa.field("type_name", pa.string(), False),
        pa.field("data_type", pa.int32(), False),
        pa.field("column_size", pa.int32()),
        pa.field("literal_prefix", pa.string()),
        pa.field("literal_suffix", pa.string()),
        pa.field("create_params", pa.list_(pa.field("item", pa.string(), False))),
        pa.field("nullable", pa.int32(), False),
        pa.field("case_sensitive", pa.bool_(), False),
        pa.field("searchable", pa.int32(), False),
        pa.field("unsigned_attribute", pa.bool_()),
        pa.field("fixed_prec_scale", pa.bool_(), False),
        pa.field("auto_increment", pa.bool_()),
        pa.field("local_type_name", pa.string()),
        pa.field("minimum_scale", pa.int32()),
        pa.field("maximum_scale", pa.int32()),
        pa.field("sql_data_type", pa.int32(), False),
        pa.field("datetime_subcode", pa.int32()),
        pa.field("num_prec_radix", pa.int32()),
        pa.field("interval_precision", pa.int32()),
    ]
)


def types(wanted: int | None) -> pa.Table:
    """Returns the types, or the one with a number."""
    rows = [_type(*t) for t in _TYPES if wanted in (None, t[1])]
    rows.sort(key=lambda row: int(str(row["data_type"])))
    return pa.Table.from_pylist(rows, schema=TYPES_SCHEMA)


def _type(
    name: str, number: int, size: int, prefix: str | None, suffix: str | None
) -> dict[str, object]:
    is_text = name in ("CHAR", "STRING")
    params = {"DECIMAL": ["precision", "scale"], "CHAR": ["length"], "TIMESTAMP": ["precision"]}
    return {
        "type_name": name,
        "data_type": number,
        "column_size": size,
        "literal_prefix": prefix,
        "literal_suffix": suffix,
        "create_params": params.get(name),
        "nullable": 1,
        "case_sensitive": is_text,
        "searchable": 3 if is_text else 2,
        "unsigned_attribute": False if number < 9 and prefix is None else None,
        "fixed_prec_scale": False,
        "auto_increment": False,
        "local_type_name": name,
        "minimum_scale": 0 if name == "DECIMAL" else None,
        "maximum_scale": 38 if name == "DECIMAL" else None,
        "sql_data_type": number,
        "num_prec_radix": 10 if prefix is None else None,
    }
