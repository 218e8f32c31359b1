"""Goldens of expressions: what real Flink says of each over the rows of one table, and what the
engine says.

A golden is a line of JSON: `expr`, and `type` and `values` (one per row) or `error` ("refused" when
planned, "fails" at run time). Where we differ on purpose, `ours` holds what differs and `why` says
why."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from parser import parse, parse_condition
from parser.errors import SqlError
from parser.statements import CreateTable
from parser.types import STRING, Column, DataType, Root, Schema
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Field, Place, Scope
from planner.catalog import Catalog
from planner.scalar import ColumnRef
from sqlengine.batch import Batch
from sqlengine.expressions import evaluate
from udf.casts.cast import convert
from udf.casts.parsing import parse_date, parse_time, parse_timestamp

FOLDER = Path(__file__).parent / "goldens"


def table_ddl(path: Path = FOLDER / "t.json") -> str:
    return (FOLDER / "t.sql").read_text().replace("${PATH}", str(path))


def read_table() -> Batch:
    """The rows of t.json by the schema of t.sql."""
    (statement,) = parse(table_ddl())
    assert isinstance(statement, CreateTable)
    schema = Schema(tuple(Column(c.name, c.type) for c in statement.columns if c.type is not None))
    rows = [json.loads(line) for line in (FOLDER / "t.json").read_text().splitlines()]
    columns = tuple(_column([r.get(c.name) for r in rows], c.type) for c in schema)
    return Batch(schema, columns, len(rows))


def _column(values: list[Any], t: DataType) -> pa.Array:
    if t.is_binary:
        return pa.array([None if v is None else b64decode(v) for v in values], t.arrow)
    if isinstance(next(v for v in values if v is not None), str) and not t.is_string:
        texts = pa.array([None if v is None else v.removesuffix("Z") for v in values], pa.string())
        return convert(texts, STRING, t).values
    return pa.array(values, t.arrow)


def read_goldens(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines()[1:]:
        yield json.loads(line)


def ours(expression: str, batch: Batch) -> dict[str, Any]:
    """What the engine says of an expression, in a golden's form."""
    scope = Scope(tuple(Field(("t",), c.name, ColumnRef(c.name, c.type)) for c in batch.schema))
    try:
        bound = bind_scalar(
            parse_condition(expression), Place(Context(Catalog(), {}), scope, "SELECT")
        )
    except SqlError as error:
        return {"error": "refused", "message": str(error)}
    result = evaluate(bound, batch)
    if result.errors is not None:
        return {
            "error": "fails",
            "message": result.errors.reason(int(np.flatnonzero(result.errors.mask)[0])),
        }
    values = result.array(batch.num_rows)
    assert values.type == bound.type.arrow, f"{values.type} is not the Arrow type of {bound.type}"
    return {"type": str(bound.type), "values": plain(values, bound.type)}


def plain(values: pa.Array, t: DataType) -> list[Any]:
    """Values that can be compared: times as nanoseconds, floats of their own width, decimals as
    text."""
    if t.is_timestamp or t.root is Root.TIME:
        unit = {"ms": 1_000_000, "us": 1_000, "ns": 1}[values.type.unit]
        numbers = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64()).to_pylist()
        return [None if v is None else v * unit for v in numbers]
    if t.root is Root.DATE:
        return values.view(pa.int32()).to_pylist()
    return [_plain(v, t) for v in values.to_pylist()]


def _plain(value: Any, t: DataType) -> Any:
    match value:
        case Decimal():
            return f"{value:f}"
        case bytes():
            return value.hex()
        case float():
            return _float(value, t)
    return value


def _float(value: float, t: DataType) -> Any:
    return repr(np.float32(value) if t.root is Root.FLOAT else np.float64(value))


def expected(value: Any, type_text: str) -> Any:
    """A value of the oracle in the form of `plain`."""
    if value is None:
        return None
    name = type_text.split("(")[0].split(" ")[0]
    match name:
        case "FLOAT" | "DOUBLE":
            return _float(float(value), DataType(Root[name]))
        case "DATE":
            return parse_date(value)
        case "TIME":
            return parse_time(value)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            text = value.removesuffix("Z").replace("T", " ")
            return parse_timestamp(text if text.count(":") == 2 else text + ":00")
        case "INTERVAL":
            return _duration(value)
    return value


def _duration(value: str) -> int:
    if found := re.fullmatch(r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?", value):
        years, months = (int(g or 0) for g in found.groups())
        return years * 12 + months
    found = re.fullmatch(r"PT(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?", value)
    assert found is not None
    hours, minutes, seconds = (Decimal(g or 0) for g in found.groups())
    return int(((hours * 60 + minutes) * 60 + seconds) * 1000)


def wanted(golden: dict[str, Any]) -> dict[str, Any]:
    """What we must say: Flink's answer with our differences."""
    merged = {**golden, **golden.get("ours", {})}
    if "error" in golden.get("ours", {}) or ("error" in golden and "ours" not in golden):
        return {"error": merged["error"]}
    return {
        "type": merged["type"],
        "values": [expected(v, merged["type"]) for v in merged["values"]],
    }
