"""Values of SQL as JSON: JSON_STRING, JSON_OBJECT, JSON_ARRAY, JSON_QUOTE, JSON_UNQUOTE."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import regex

from parser.errors import PlanError
from parser.types import INT, STRING, DataType, Root, map_of
from udf.arrays.arrays import errors_of, in_two_ways, per_distinct, valid
from udf.casts.nested import RECORDS
from udf.casts.texts import float_text, plain_doubles, written_doubles
from udf.growth import WRITTEN
from udf.json.columns import array_column, list_column, map_column, object_column, plain_column
from udf.json.reading import read_fast
from udf.json.text import NotJson, number_text, quoted_json, read_json, write_json
from udf.registry import KernelContext, Literals, Types, Values, function
from udf.signatures import Custom, gives, takes, text_or_null
from udf.vector import Errors, Vector

_STRING = pa.string()
_WRITTEN = (
    *(
        Root.CHAR,
        Root.VARCHAR,
        Root.BOOLEAN,
        Root.TINYINT,
        Root.SMALLINT,
        Root.INT,
        Root.BIGINT,
        Root.FLOAT,
        Root.DOUBLE,
    ),
    *(
        Root.DECIMAL,
        Root.BINARY,
        Root.VARBINARY,
        Root.TIMESTAMP,
        Root.TIMESTAMP_LTZ,
        Root.VARIANT,
        Root.NULL,
    ),
)

Writer = Callable[[object], str]


def check_json(t: DataType) -> None:
    """PlanError for a type that has no form in JSON."""
    # JSON's keys are strings.
    if t.root in (Root.MAP, Root.MULTISET) and not t.children[0].is_string:
        raise PlanError(f"{t.plain} is not supported in JSON: keys must be strings")
    if t.root in (Root.ARRAY, Root.MAP, Root.MULTISET, *RECORDS):
        for child in t.children:
            check_json(child)
    elif t.root not in _WRITTEN:
        raise PlanError(f"{t.plain} is not supported in JSON", hint="CAST it to STRING")


def json_column(values: pa.Array, t: DataType) -> pa.Array:
    """The JSON of every value, NULL for NULL."""
    match t.root:
        case Root.ARRAY:
            return list_column(values, json_column(values.values, t.children[0]))
        case Root.MAP:
            return _maps(values, t)
        case Root.MULTISET:
            return _maps(values, map_of(t.children[0], INT))
        case Root.ROW | Root.STRUCTURED:
            return _rows(values, t)
        case Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return pa.array(_times(values, t), _STRING)
    column = plain_column(values, t)
    if column is not None:
        return column
    write = _writer(t)
    if t.root is Root.DOUBLE:
        # -0.0 is written as such by Arrow, but not by JSON's number form: it goes the slow way.
        mask = plain_doubles(values) & ~np.signbit(
            values.fill_null(0.0).to_numpy(zero_copy_only=False)
        )
        return in_two_ways(values, mask, written_doubles, lambda v: _one_by_one(v, write))
    return _one_by_one(values, write)


def _one_by_one(values: pa.Array, write: Writer) -> pa.Array:
    return pa.array([None if v is None else write(v) for v in values.to_pylist()], _STRING)


def _writer(t: DataType) -> Writer:
    match t.root:
        case Root.VARIANT:
            return str
        case Root.BOOLEAN:
            return lambda v: "true" if v else "false"
        case Root.FLOAT | Root.DOUBLE:
            return lambda v: _float(float_text(float(str(v)), t.root is Root.FLOAT))
        case Root.DECIMAL:
            return lambda v: number_text(Decimal(str(v)))
        case Root.BINARY | Root.VARBINARY:
            return lambda v: quoted_json(b64encode(v if isinstance(v, bytes) else b"").decode())
        case Root.CHAR | Root.VARCHAR:
            return lambda v: quoted_json(str(v))
    return str


def _float(written: str) -> str:
    # "NaN" and "Infinity" have no number in JSON: they become strings.
    return number_text(Decimal(written)) if written[-1].isdigit() else quoted_json(written)


def _times(values: pa.Array, t: DataType) -> list[str | None]:
    """ISO 8601 with seconds, and fractions where there are some; instants in UTC."""
    zone = "Z" if t.root is Root.TIMESTAMP_LTZ else ""
    # The cast drops the zone without moving the instant: UTC.
    plain = values.cast(pa.timestamp(values.type.unit)) if zone else values
    texts = plain.cast(_STRING).to_pylist()
    return [None if v is None else f'"{_without_zeros(v.replace(" ", "T"))}{zone}"' for v in texts]


def _without_zeros(written: str) -> str:
    return written.rstrip("0").rstrip(".") if "." in written else written


def _maps(values: pa.Array, t: DataType) -> pa.Array:
    items = json_column(values.items, t.children[1])
    maps = map_column(values, items)
    if maps is not None:
        return maps
    # Only reached for maps with a key twice, or keys beyond ASCII.
    keys, texts = values.keys.to_pylist(), [v or "null" for v in items.to_pylist()]
    spans = zip(
        values.is_valid().to_pylist(),
        values.offsets.to_pylist(),
        values.offsets.to_pylist()[1:],
        strict=False,
    )
    return pa.array(
        [
            # Of equal keys the last one counts, as a dict has it.
            json_object(dict(zip(keys[a:b], texts[a:b], strict=True))) if p else None
            for p, a, b in spans
        ],
        _STRING,
    )


def _rows(values: pa.Array, t: DataType) -> pa.Array:
    members = {
        n: json_column(m, c) for n, m, c in zip(t.names, values.flatten(), t.children, strict=True)
    }
    keys = sorted(members, key=_order)
    written = object_column(keys, [members[k] for k in keys], absent=False)
    present = valid(values, len(values))
    return (
        written
        if present.all()
        else pc.if_else(pa.array(present), written, pa.scalar(None, _STRING))
    )


def _order(key: str) -> bytes:
    # Java orders strings by UTF-16 units: a character beyond U+FFFF (a surrogate) comes before
    # U+E000.
    return key.encode("utf-16-be", "surrogatepass")


def json_object(members: dict[str, str]) -> str:
    """An object of JSON texts, keys in order."""
    ordered = sorted(members.items(), key=lambda pair: _order(pair[0]))
    return "{" + ",".join(f"{quoted_json(k)}:{v}" for k, v in ordered) + "}"


def _array(value: Values, num_rows: int) -> pa.Array:
    return pa.repeat(value, num_rows) if isinstance(value, pa.Scalar) else value


def _written_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) == 1 else None


def _string_result(types: Types, literals: Literals) -> DataType:
    check_json(types[0])
    return STRING.with_nullable(types[0].nullable)


@function("JSON_STRING", signature=Custom(_written_types, _string_result, "a value"))
def json_string(ctx: KernelContext, value: Values) -> Values:
    """JSON_STRING(value): the value as JSON: rows as objects, times as text (instants in UTC),
    bytes in base 64; keys in order. Not for DATE, TIME, intervals, and maps with other keys than
    strings.

    >>> JSON_STRING(ARRAY[1, 2])
    '[1,2]'
    """
    return json_column(_array(value, ctx.num_rows), ctx.arg_types[0])


def _checked_json(documents: list[str | None]) -> tuple[list[str | None], dict[int, str]]:
    """JSON texts written anew; the rows where there is none, with the reason."""
    written: list[str | None] = []
    failures: dict[int, str] = {}
    for i, document in enumerate(documents):
        try:
            written.append(None if document is None else write_json(read_json(document)))
        except NotJson as error:
            failures[i] = str(error)
            written.append(None)
    return written, failures


def _members(
    ctx: KernelContext, raw: str, values: Sequence[Values], types: Types
) -> tuple[list[pa.Array], Errors | None]:
    """The JSON of all members by column: 'j' in `raw` marks what is JSON already, 'c' what must be
    checked first."""
    columns: list[pa.Array] = []
    failures: dict[int, str] = {}
    # A member that is JSON already is not quoted a second time.
    for mark, value, t in zip(raw, values, types, strict=True):
        column = _array(value, ctx.num_rows)
        if mark == "j":
            columns.append(column)
        elif mark == "c":
            texts, failed = _checked_json(column.to_pylist())
            columns.append(pa.array(texts, _STRING))
            failures |= failed
        else:
            columns.append(json_column(column, t))
    return columns, errors_of(failures, ctx.num_rows)


def _object_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) >= 2 and len(types) % 2 == 0 else None


def _object_result(types: Types, literals: Literals) -> DataType:
    for key in types[2::2]:
        if not key.is_string or key.nullable:
            raise PlanError(f"a key of JSON_OBJECT is a string that is not NULL, and not {key}")
    for value in types[3::2]:
        check_json(value)
    return STRING.with_nullable(False)


@function(
    "JSON_OBJECT",
    signature=Custom(_object_types, _object_result, "keys and values"),
    growth=WRITTEN,
)
def json_object_kernel(
    ctx: KernelContext, on_null: Values, raw: Values, *members: Values
) -> Vector:
    """JSON_OBJECT([KEY] key VALUE value, … [NULL | ABSENT ON NULL]): an object of these members,
    keys in order; NULL values stay (NULL ON NULL, the default) or are left out. Results of
    JSON_OBJECT, JSON_ARRAY and JSON(text) are nested as JSON, not as strings. Error: JSON(text)
    of an invalid text.

    >>> JSON_OBJECT('k' VALUE 1, 'a' VALUE 'x')
    '{"a":"x","k":1}'
    """
    columns, errors = _members(ctx, _first(raw), members[1::2], ctx.arg_types[3::2])
    absent = _first(on_null) == "ABSENT"
    constant = [str(k.as_py()) for k in members[::2] if isinstance(k, pa.Scalar) and k.is_valid]
    # Constant and different keys: the order is the same for all rows, so whole columns are joined.
    if len(set(constant)) == len(columns):
        named = dict(zip(constant, columns, strict=True))
        ordered = sorted(named, key=_order)
        return Vector(object_column(ordered, [named[k] for k in ordered], absent=absent), errors)
    keys = [_array(k, ctx.num_rows).to_pylist() for k in members[::2]]
    texts, rows = [c.to_pylist() for c in columns], []
    for i in range(ctx.num_rows):
        # Of equal keys the last value counts; absent ones do not overwrite an earlier one.
        pairs = {
            k[i]: v[i] for k, v in zip(keys, texts, strict=True) if v[i] is not None or not absent
        }
        rows.append(json_object({str(k): v or "null" for k, v in pairs.items()}))
    return Vector(pa.array(rows, _STRING), errors)


def _first(values: Values) -> str:
    return str(
        values.as_py()
        if isinstance(values, pa.Scalar)
        else values[0].as_py()
        if len(values)
        else ""
    )


def _array_types(types: Types) -> tuple[DataType, ...] | None:
    return tuple(types) if len(types) >= 2 else None


def _array_result(types: Types, literals: Literals) -> DataType:
    for value in types[2:]:
        check_json(value)
    return STRING.with_nullable(False)


@function("JSON_ARRAY", signature=Custom(_array_types, _array_result, "values"), growth=WRITTEN)
def json_array_kernel(
    ctx: KernelContext, on_null: Values, raw: Values, *elements: Values
) -> Vector:
    """JSON_ARRAY(value, … [NULL | ABSENT ON NULL]): an array of these values; NULL values are left
    out (ABSENT ON NULL, the default) or stay. Results of JSON_OBJECT, JSON_ARRAY and JSON(text)
    are nested as JSON. Error: JSON(text) of an invalid text.

    >>> JSON_ARRAY(1, 'a', JSON_ARRAY(2))
    '[1,"a",[2]]'
    """
    columns, errors = _members(ctx, _first(raw), elements, ctx.arg_types[2:])
    if not columns:
        return Vector(pa.array(["[]"] * ctx.num_rows, _STRING), errors)
    return Vector(array_column(columns, absent=_first(on_null) == "ABSENT"), errors)


def _quoted(value: str) -> str:
    named = {
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        '"': '\\"',
        "\\": "\\\\",
        "/": "\\/",
    }
    # Nothing to escape but quotes and backslashes: the usual case.
    if value.isascii() and value.isprintable():
        plain = value.replace("\\", "\\\\").replace('"', '\\"').replace("/", "\\/")
        return f'"{plain}"'
    # Escapes are per UTF-16 unit: a character beyond U+FFFF is written as two.
    units = value.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    return (
        '"' + "".join(named.get(chr(c), chr(c) if c < 128 else f"\\u{c:04x}") for c in codes) + '"'
    )


@function("JSON_QUOTE", signature=takes(text_or_null, result=gives(STRING)))
def json_quote(ctx: KernelContext, value: Values) -> Values:
    """JSON_QUOTE(text): the text as a JSON string in quotes; characters beyond ASCII are escaped.

    >>> JSON_QUOTE('a"b')
    '"a\\"b"'
    """
    return per_distinct(_quoted, _STRING, value)


_ESCAPE = regex.compile(r"\\(?:u([0-9a-fA-F]{4})|(.?))", regex.DOTALL)
_NAMED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}


class _NotEscaped(Exception):
    """The text has a sequence that JSON does not know."""


def _unescaped(match: regex.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    if match[2] not in _NAMED:
        raise _NotEscaped
    return _NAMED[match[2]]


def _unquoted(value: str) -> str:
    if (
        len(value) < 2
        or not (value[0] == value[-1] == '"')
        # A bare control character makes it no valid JSON string.
        or not (value.isprintable() or all(c >= " " for c in value))
    ):
        return value
    if "\\" not in value:
        return value[1:-1]
    # The fast reader settles most texts; what it doubts is read escape by escape.
    fast = read_fast(value)
    if isinstance(fast, str):
        return fast
    try:
        plain = str(_ESCAPE.sub(_unescaped, value[1:-1]))
    except _NotEscaped:
        return value
    # Pairs of surrogate escapes join to a character; a lone one becomes U+FFFD.
    return plain.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")


@function("JSON_UNQUOTE", signature=takes(text_or_null, result=gives(STRING)))
def json_unquote(ctx: KernelContext, value: Values) -> Values:
    """JSON_UNQUOTE(text): the text of a JSON string; what is no valid one stays as it is.

    >>> JSON_UNQUOTE('"a\\u0041"')
    'aA'
    """
    return per_distinct(_unquoted, _STRING, value)
