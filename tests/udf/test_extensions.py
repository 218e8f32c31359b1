"""Functions that Flink has not: each over NULL, empty and wrong input, other alphabets, constants
and columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from parser import parse_condition
from parser.errors import PlanError
from parser.types import BIGINT, INT, STRING, DataType, Schema
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Field, Place, Scope
from planner.catalog import Catalog
from planner.scalar import ColumnRef
from sqlengine.batch import Batch
from sqlengine.expressions import evaluate

APACHE = '10.0.0.1 - ann [10/Oct/2000:13:55:36 -0700] "GET /a?b=1 HTTP/1.0" 200 2326'
# Function -> arguments and result.
CASES: dict[str, list[tuple[tuple[Any, ...], Any]]] = {
    "CIDR_MATCH": [
        (("10.1.2.3", "10.0.0.0/8"), True),
        (("11.1.2.3", "10.0.0.0/8"), False),
        (("::ffff:10.0.0.1", "10.0.0.0/8"), True),
        (("2001:db8::1", "2001:db8::/32"), True),
        (("10.0.0.1", "::/0"), False),
        ((" 10.0.0.1 ", "10.0.0.1"), True),
        (("é", "10.0.0.0/8"), False),
        (("", "10.0.0.0/8"), False),
        ((None, "10.0.0.0/8"), None),
    ],
    "IP_TO_INT": [
        (("10.0.0.1",), 167772161),
        (("255.255.255.255",), 4294967295),
        (("127.1",), None),
        (("::1",), None),
        (("é",), None),
        (("",), None),
        ((None,), None),
    ],
    "INT_TO_IP": [
        ((167772161,), "10.0.0.1"),
        ((0,), "0.0.0.0"),
        ((4294967295,), "255.255.255.255"),
        ((4294967296,), None),
        ((-1,), None),
        ((None,), None),
    ],
    "IP_VERSION": [
        (("1.2.3.4",), 4),
        (("::1",), 6),
        (("1.2.3",), None),
        (("é",), None),
        (("",), None),
        ((None,), None),
    ],
    "IS_PRIVATE_IP": [
        (("192.168.1.1",), True),
        (("172.31.255.255",), True),
        (("172.32.0.0",), False),
        (("fd00::1",), True),
        (("é",), False),
        (("",), False),
        ((None,), None),
    ],
    "IS_LOOPBACK_IP": [
        (("127.0.0.1",), True),
        (("127.255.255.255",), True),
        (("128.0.0.1",), False),
        (("::1",), True),
        (("é",), False),
        ((None,), None),
    ],
    "IP_NETWORK": [
        (("10.1.2.3", 16), "10.1.0.0/16"),
        (("10.1.2.3", 32), "10.1.2.3/32"),
        (("10.1.2.3", 33), None),
        (("10.1.2.3", -1), None),
        (("2001:db8::1", 32), "2001:db8::/32"),
        (("é", 8), None),
        ((None, 8), None),
        (("10.1.2.3", None), None),
    ],
    "GROK": [
        (("10.0.0.1 GET", "%{IP:client} %{WORD:verb}"), {"client": "10.0.0.1", "verb": "GET"}),
        ((APACHE, "%{COMMONAPACHELOG}"), {
            "clientip": "10.0.0.1", "ident": "-", "auth": "ann", "timestamp": "10/Oct/2000:13:55:36 -0700", "verb": "GET",
            "request": "/a?b=1", "httpversion": "1.0", "response": "200", "bytes": "2326",
        }),
        (("n=5 é", "n=%{INT:n} (?<rest>.*)"), {"n": "5", "rest": "é"}),
        (("n=x", "n=%{INT:n}"), None),
        (("2020-01-02T03:04:05Z ERROR", "%{TIMESTAMP_ISO8601:ts} %{LOGLEVEL:level}"),
         {"ts": "2020-01-02T03:04:05Z", "level": "ERROR"}),
        (("", "%{GREEDYDATA:all}"), {"all": ""}),
        ((None, "%{INT:n}"), None),
    ],
    "KEYVALUE": [
        (('user=ann action="log in" x',), {"user": "ann", "action": "log in"}),
        (("a:1;b:2;;a:3", ";", ":"), {"a": "3", "b": "2"}),
        (("é=😀 =x y=",), {"é": "😀", "y": ""}),
        (("a='b c",), {"a": "'b"}),
        (("",), {}),
        ((None,), None),
    ],
    "PARSE_CEF": [
        ((r"CEF:0|V|W\|all|1|100|denied|10|src=10.0.0.1 msg=a\=b c",),
         {"version": "0", "device_vendor": "V", "device_product": "W|all", "device_version": "1", "signature_id": "100",
          "name": "denied", "severity": "10", "src": "10.0.0.1", "msg": "a=b c"}),
        (("<13>Sep 19 08:26:10 h CEF:0|a|b|c|d|e|f|",),
         {"version": "0", "device_vendor": "a", "device_product": "b", "device_version": "c", "signature_id": "d",
          "name": "e", "severity": "f"}),
        (("CEF:0|a|b",), None),
        (("nothing",), None),
        ((None,), None),
    ],
    "PARSE_LEEF": [
        (("x LEEF:2.0|V|W|1|e|^|src=10.0.0.1^usr=ann",),
         {"version": "2.0", "vendor": "V", "product": "W", "product_version": "1", "event_id": "e", "src": "10.0.0.1", "usr": "ann"}),
        (("LEEF:1.0|a",), None),
        (("",), None),
        ((None,), None),
    ],
}  # fmt: skip
TYPES: dict[type, DataType] = {str: STRING, int: INT}


def column_types(function: str) -> list[DataType]:
    rows = [arguments for arguments, _ in CASES[function]]
    width = max(map(len, rows))
    known = [
        next(type(r[i]) for r in rows if len(r) > i and r[i] is not None) for i in range(width)
    ]
    return [BIGINT if function == "INT_TO_IP" else TYPES[t] for t in known]


def literal(value: Any, kind: DataType) -> str:
    if value is None:
        return f"CAST(NULL AS {kind})"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def ask(expression: str, batch: Batch) -> list[Any]:
    scope = Scope(tuple(Field(("t",), c.name, ColumnRef(c.name, c.type)) for c in batch.schema))
    bound = bind_scalar(parse_condition(expression), Place(Context(Catalog(), {}), scope, "SELECT"))
    result = evaluate(bound, batch)
    assert result.errors is None
    values: list[Any] = result.array(batch.num_rows).to_pylist()
    return [dict(v) if isinstance(v, list) else v for v in values]


@pytest.mark.parametrize("function", CASES)
def test_as_constants_and_over_columns(function: str) -> None:
    types = column_types(function)
    for arguments, wanted in CASES[function]:
        kinds = types[: len(arguments)]
        names = [f"c{i}" for i in range(len(arguments))]
        columns = tuple(pa.array([a, a], t.arrow) for a, t in zip(arguments, kinds, strict=True))
        batch = Batch(Schema.of(**dict(zip(names, kinds, strict=True))), columns, 2)
        written = ", ".join(literal(a, t) for a, t in zip(arguments, kinds, strict=True))
        assert ask(f"{function}({written})", batch) == [wanted, wanted], written
        assert ask(f"{function}({', '.join(names)})", batch) == [wanted, wanted], written


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("CIDR_MATCH('a', 'b')", "cannot apply 'CIDR_MATCH'"),
        ("CIDR_MATCH(1, '10.0.0.0/8')", "cannot apply 'CIDR_MATCH'"),
        ("GROK('a', '%{NOPE:x}')", "cannot apply 'GROK'"),
        ("GROK('a', '(')", "cannot apply 'GROK'"),
        ("IP_NETWORK('1.2.3.4')", "cannot apply 'IP_NETWORK'"),
        ("KEYVALUE()", "cannot apply 'KEYVALUE'"),
    ],
)
def test_refusals(expression: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        ask(expression, Batch(Schema(()), (), 1))
