"""What holds for every function: a batch is its rows one by one, constants are columns, and
laziness hides errors."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.errors import PlanError
from parser.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, DataType, decimal, timestamp
from udf import registry
from udf.aggregates.accumulators import empty_accumulator
from udf.aggregates.registry import bind_aggregate
from udf.java.regex import translate
from udf.numbers.rounding import _round_fast, _round_float
from udf.registry import KernelContext, bind, call, lookup, names, suggest
from udf.text.like import match_like, parse_like
from udf.vector import Errors, Vector

N10 = decimal(10, 2)
TS = timestamp(3)
TEXT = st.text(st.sampled_from("abAB xyß😀é%_\n1.-,"), max_size=6)
VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    STRING: TEXT,
    INT: st.sampled_from([0, 1, -1, 2, 5, -3, 2**31 - 1, -(2**31)])
    | st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1),
    DOUBLE: st.floats(width=64) | st.sampled_from([0.5, -0.5, 1.005, 2.675, -0.0, 1e300]),
    BOOLEAN: st.booleans(),
    N10: st.decimals(-99999999, 99999999, places=2),
    DATE: st.integers(-719162, 2932896),
    TS: st.integers(-62135596800000, 253402300799999),
}

SHAPES: list[tuple[str, tuple[DataType, ...]]] = [
    *[
        (f, (INT, INT))
        for f in ("+", "-", "*", "/", "%", "=", "<", ">=", "IS DISTINCT FROM", "ROUND", "GREATEST")
    ],
    *[(f, (BIGINT, BIGINT)) for f in ("+", "/", "<>")],
    *[(f, (BIGINT, INT)) for f in ("%", "NULLIF")],
    *[(f, (N10, N10)) for f in ("+", "*", "/", "%", "<=", "LEAST")],
    *[(f, (DOUBLE, DOUBLE)) for f in ("+", "/", "=", "<", "POWER", "COALESCE")],
    *[(f, (BOOLEAN, BOOLEAN)) for f in ("AND", "OR", "=", "<", "GREATEST")],
    *[
        (f, (STRING, STRING))
        for f in ("=", "<", "||", "LIKE", "REGEXP", "POSITION", "STARTSWITH", "ENDSWITH", "LTRIM")
    ],
    *[
        (f, (STRING,))
        for f in ("LOWER", "UPPER", "TRIM", "CHAR_LENGTH", "REVERSE", "MD5", "INITCAP", "IS NULL")
    ],
    *[(f, (STRING, INT)) for f in ("SUBSTRING", "LEFT", "RIGHT")],
    *[
        (f, (STRING, STRING, STRING))
        for f in ("REPLACE", "REGEXP_REPLACE", "CONCAT_WS", "CONCAT", "IN", "BETWEEN")
    ],
    *[(f, (TS, STRING)) for f in ("DATE_FORMAT", "FLOOR", "CEIL")],
    *[(f, (DATE,)) for f in ("YEAR", "MONTH", "DAYOFMONTH", "WEEK", "DAYOFYEAR")],
    ("SUBSTRING", (STRING, INT, INT)),
    ("SPLIT_INDEX", (STRING, STRING, INT)),
    ("REGEXP_EXTRACT", (STRING, STRING, INT)),
    ("ROUND", (DOUBLE, INT)),
    ("CASE", (BOOLEAN, INT, BOOLEAN, INT, INT)),
    ("IF", (BOOLEAN, STRING, STRING)),
    ("NOT", (BOOLEAN,)),
    ("NEG", (INT,)),
    ("ABS", (BIGINT,)),
    ("FLOOR", (N10,)),
    ("CEIL", (DOUBLE,)),
    ("TO_TIMESTAMP_LTZ", (BIGINT,)),
    ("FROM_UNIXTIME", (BIGINT,)),
]
SMALL = {"SUBSTRING", "LEFT", "RIGHT", "SPLIT_INDEX", "REGEXP_EXTRACT", "ROUND"}
PATTERNS = st.sampled_from(
    ["a", "a|b", "(a)(b)?", "^x", "y$", "[^a]+", "\\s", "(?i)AB", "\\bx", "a*", "(", "", ".", "a?b"]
)
FORMATS = st.sampled_from(
    ["yyyy-MM-dd", "HH:mm:ss.SSS", "E d MMM yy", "hh a", "x", "D w Q", "'at' H"]
)
UNITS = st.sampled_from(["SECOND", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"])


def argument(function: str, position: int, t: DataType) -> st.SearchStrategy[Any]:
    if t == INT and function in SMALL:
        return st.none() | st.integers(-8, 8)
    if position == 1 and function.startswith("REGEXP"):
        return st.none() | PATTERNS
    if position == 1 and function == "DATE_FORMAT":
        return FORMATS
    if position == 1 and t == STRING and function in ("FLOOR", "CEIL"):
        return UNITS
    return st.none() | VALUES[t]


def column(values: Sequence[Any], t: DataType) -> pa.Array:
    if t == TS:
        return pa.array(values, pa.int64()).cast(t.arrow)
    return pa.array(values, pa.int32()).view(t.arrow) if t == DATE else pa.array(values, t.arrow)


def run(
    function: str, types: Sequence[DataType], args: Sequence[Vector], num_rows: int
) -> tuple[list[Any], list[Any]]:
    bound = bind(function, types)
    assert [a.plain for a in bound.arg_types] == [t.plain for t in types], "no implicit casts here"
    context = KernelContext(num_rows, bound.result_type, bound.arg_types, seed=7)
    result = call(bound.definition, args, context)
    reasons = [None] * num_rows if result.errors is None else _reasons(result.errors)
    values = result.array(num_rows)
    assert len(values) == num_rows
    if pa.types.is_temporal(values.type):
        values = values.view(pa.int64())
    return [
        None if r else _comparable(v) for v, r in zip(values.to_pylist(), reasons, strict=True)
    ], reasons


def _comparable(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value


def _reasons(errors: Errors) -> list[Any]:
    return [errors.reason(i) if bad else None for i, bad in enumerate(errors.mask)]


@pytest.mark.parametrize(
    ("function", "types"), SHAPES, ids=lambda x: x if isinstance(x, str) else ""
)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_batch_is_row_by_row(
    function: str, types: tuple[DataType, ...], data: st.DataObject
) -> None:
    n = data.draw(st.integers(0, 5))
    drawn = [[data.draw(argument(function, i, t)) for _ in range(n)] for i, t in enumerate(types)]
    if function in ("FLOOR", "CEIL", "DATE_FORMAT") and len(types) == 2:
        drawn[1] = drawn[1][:1] * n
    columns = [column(d, t) for d, t in zip(drawn, types, strict=True)]
    whole = run(function, types, [Vector(c) for c in columns], n)
    for i in range(n):
        row = run(function, types, [Vector(c.slice(i, 1)) for c in columns], 1)
        assert row == ([whole[0][i]], [whole[1][i]])
        constant = run(function, types, [Vector(c[i]) for c in columns], 3)
        assert constant == ([whole[0][i]] * 3, [whole[1][i]] * 3)
    if n and len(types) > 1:  # the first varies, the others are literals, as in most scripts
        mixed = run(function, types, [Vector(columns[0]), *[Vector(c[0]) for c in columns[1:]]], n)
        spread = run(
            function,
            types,
            [Vector(columns[0]), *[Vector(pa.repeat(c[0], n)) for c in columns[1:]]],
            n,
        )
        assert mixed == spread


TRUTH = st.sampled_from([True, False, None, "error"])


def _truths(values: Sequence[Any]) -> Vector:
    failed = np.array([v == "error" for v in values], np.bool_)
    return Vector(
        pa.array([None if v == "error" else v for v in values], pa.bool_()),
        Errors.where(failed, "boom"),
    )


def _kleene(values: Sequence[Any], decisive: bool) -> Any:
    if decisive in values:
        return decisive
    return "error" if "error" in values else None if None in values else not decisive


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(TRUTH, min_size=2, max_size=4), min_size=1, max_size=6), st.booleans())
def test_and_or_hide_errors_that_do_not_matter(rows: list[list[Any]], decisive: bool) -> None:
    width = min(map(len, rows))
    args = [_truths([r[i] for r in rows]) for i in range(width)]
    found, reasons = run("OR" if decisive else "AND", [BOOLEAN] * width, args, len(rows))
    outcome = ["error" if r else v for v, r in zip(found, reasons, strict=True)]
    assert outcome == [_kleene(r[:width], decisive) for r in rows]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(TRUTH, TRUTH, TRUTH, TRUTH, TRUTH), min_size=1, max_size=6))
def test_case_and_coalesce_ask_only_for_what_they_select(rows: list[tuple[Any, ...]]) -> None:
    args = [_truths([r[i] for r in rows]) for i in range(5)]

    def case(r: tuple[Any, ...]) -> Any:
        for condition, value in ((r[0], r[1]), (r[2], r[3])):
            if condition == "error" or condition is True:
                return "error" if condition == "error" else value
        return r[4]

    for function, meaning in (
        ("CASE", case),
        ("COALESCE", lambda r: next((v for v in r if v is not None), None)),
    ):
        found, reasons = run(function, [BOOLEAN] * 5, args, len(rows))
        assert ["error" if e else v for v, e in zip(found, reasons, strict=True)] == [
            meaning(r) for r in rows
        ]


def test_errors_of_any_argument_are_errors_of_the_row() -> None:
    args = [
        Vector(pa.array([1, 2], pa.int32()), Errors.where(np.array([True, False]), "boom")),
        Vector(pa.array([0, 0], pa.int32())),
    ]
    assert run("/", [INT, INT], args, 2) == ([None, None], ["boom", "division by zero"])


@settings(max_examples=200, deadline=None)
@given(TEXT, st.text(st.sampled_from("ab%_.x😀\n"), max_size=6))
def test_like_is_its_regular_expression(value: str, pattern: str) -> None:
    quoted = "".join(".*" if c == "%" else "." if c == "_" else regex.escape(c) for c in pattern)
    wanted = regex.fullmatch(quoted, value, regex.DOTALL) is not None
    assert match_like(pa.array([value]), parse_like(pattern)).to_pylist() == [wanted]


PIECES = st.lists(
    st.sampled_from(
        [
            "a",
            "b",
            ".",
            "\\w",
            "\\s",
            "[a-x]",
            "[^ab]",
            "(a|b)",
            "(?:ab)",
            "x*",
            "1+",
            "é",
            "\\.",
            "y?",
            "^",
            "$",
            "\\b",
            "(?i)",
            "\\d{1,2}",
            "-",
            "\\Z",
            "(?:a*)*",
            "(x|b?)+",
            "[\\W&&[^y]]",
            "[[x1]-]",
            "(?iu)",
            "\\R",
        ]
    ),
    max_size=6,
)


@settings(max_examples=300, deadline=None)
@given(PIECES, st.lists(TEXT, min_size=1, max_size=5))
def test_re2_and_regex_agree(pieces: list[str], values: list[str]) -> None:
    pattern = "".join(pieces)
    compiled = translate(pattern)
    column = pa.array(values, pa.string())
    matched = [compiled.exact.search(v, timeout=1.0) for v in values]
    context = KernelContext(len(values), BOOLEAN, (STRING, STRING))
    for function, meaning in (
        ("REGEXP", [m is not None and bool(pattern) for m in matched]),
        ("REGEXP_EXTRACT", [None if m is None else m[0] for m in matched]),
    ):
        found = call(lookup(function), [Vector(column), Vector(pa.scalar(pattern))], context)  # type: ignore[arg-type]
        assert found.array(len(values)).to_pylist() == meaning


@settings(max_examples=300, deadline=None)
@given(st.floats(-1e12, 1e12) | st.decimals(-1000, 1000, places=3).map(float), st.integers(0, 6))
def test_rounding_at_once_is_rounding_by_text(value: float, digits: int) -> None:
    assert _round_fast(np.array([value]), digits)[0] == _round_float(value, digits)


AGGREGATES = [
    ("COUNT", INT),
    ("SUM", INT),
    ("AVG", INT),
    ("MIN", INT),
    ("MAX", BIGINT),
    ("SUM", N10),
    ("AVG", N10),
    ("MIN", STRING),
    ("MAX", N10),
]


@pytest.mark.parametrize(("name", "t"), AGGREGATES, ids=lambda x: str(x))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_aggregates_of_parts_merge_to_that_of_all(
    name: str, t: DataType, data: st.DataObject
) -> None:
    rows = data.draw(
        st.lists(st.tuples(st.integers(0, 2), st.none() | VALUES[t], st.booleans()), max_size=12)
    )
    cut = data.draw(st.integers(0, len(rows)))
    aggregate = bind_aggregate(name, [t])
    slots = np.arange(3)

    def accumulate(parts: Sequence[Sequence[tuple[int, Any, bool]]]) -> dict[str, Any]:
        acc = empty_accumulator(aggregate.accumulators, 4)
        for part in parts:
            values = column([v for _, v, _ in part], t)
            keys = np.array([k for k, _, _ in part], np.int64)
            aggregate.update(acc, keys, values, np.array([s for *_, s in part], np.bool_))
        return acc

    def result(acc: dict[str, Any]) -> list[object]:
        values = aggregate.result(acc, slots)
        assert isinstance(values, pa.Array)
        return values.to_pylist()

    whole = result(accumulate([rows]))
    assert result(accumulate([rows[:cut], rows[cut:]])) == whole
    merged = accumulate([rows[:cut]])
    aggregate.merge(merged, slots, accumulate([rows[cut:]]), slots)
    assert result(merged) == whole
    if aggregate.retractable:
        aggregate.retract(
            merged,
            np.array([k for k, _, _ in rows[:cut]], np.int64),
            column([v for _, v, _ in rows[:cut]], t),
            np.array([s for *_, s in rows[:cut]], np.bool_),
        )
        assert result(merged) == result(accumulate([rows[cut:]]))


def test_a_decimal_sum_that_left_38_digits_has_no_value() -> None:
    aggregate = bind_aggregate("SUM", [decimal(38, 0)])
    acc = empty_accumulator(aggregate.accumulators, 1)
    most = pa.array([Decimal("9" * 38), Decimal(1), Decimal(1)], pa.decimal128(38, 0))
    for i in range(3):
        aggregate.update(acc, np.zeros(1, np.int64), most.slice(i, 1), np.ones(1, np.bool_))
    values = aggregate.result(acc, np.zeros(1, np.int64))
    assert isinstance(values, pa.Array)
    assert values.to_pylist() == [None]


def test_random_values_repeat_with_their_seed() -> None:
    def values(function: str, seed: int) -> list[Any]:
        definition = lookup(function)
        assert definition is not None
        assert not definition.deterministic
        return (
            call(definition, [], KernelContext(50, definition.resolve([], []), (), seed=seed))
            .array(50)
            .to_pylist()
        )

    for function in ("UUID", "RAND"):
        assert values(function, 1) == values(function, 1)
        assert len({*values(function, 1), *values(function, 2)}) == 100
    assert all(
        regex.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", u)
        for u in values("UUID", 3)
    )


def test_a_catastrophic_pattern_costs_a_row_not_the_job() -> None:
    value = Vector(pa.array(["a" * 60 + "!", "aab"]))
    found, reasons = run(
        "REGEXP", [STRING, STRING], [value, Vector(pa.scalar(r"^(?=a)(a|a|aa)+\1$"))], 2
    )
    assert found[1] is False
    assert reasons == ["regular expression took more than 0.1 s", None]


def test_refusals_name_the_function_and_the_types() -> None:
    with pytest.raises(PlanError) as refused:
        bind("ABS", [STRING])
    assert refused.value.message == "cannot apply 'ABS' to arguments (STRING)"
    with pytest.raises(PlanError) as unknown:
        bind("CHARLENGTH", [STRING])
    assert unknown.value.hint == "did you mean CHAR_LENGTH?"
    assert suggest("no_such_thing_at_all") is None


def test_every_function_is_documented() -> None:
    assert [n for n in names() if not registry.lookup(n).doc] == []  # type: ignore[union-attr]


NASTY = [
    (
        "REPEAT",
        [STRING, INT],
        ["ab", 2**31 - 1],
        "REPEAT: the value has 4,294,967,294 bytes, at most 16,777,216 are allowed ('value-size')",
    ),
    (
        "LPAD",
        [STRING, INT, STRING],
        ["ab", 2**31 - 1, "x"],
        "LPAD: the value has 2,147,483,647 bytes, at most 16,777,216 are allowed ('value-size')",
    ),
    ("UNIX_TIMESTAMP", [STRING], ["2024-01-01 999999999:00:" + "9" * 5000], None),
    ("JSON_VALUE", [STRING, STRING], ['{"a": 1e99999999999999999999}', "$.a"], None),
    ("JSON_VALUE", [STRING, STRING], ["[" * 100_000, "$"], None),
    (
        "REGEXP",
        [STRING, STRING],
        ["x", "\\uD83D"],
        None,  # half a character is in no text
    ),
    (
        "REGEXP",
        [STRING, STRING],
        ["x", "(" * 5000 + ")" * 5000],
        "regular expression '"
        + "(" * 5000
        + ")" * 5000
        + "' uses groups that are nested more than 50 deep",
    ),
    ("DATE_FORMAT", [TS, STRING], [2**62, "yyyy"], None),
    ("TO_TIMESTAMP", [STRING, STRING], ["99999", "y"], None),
]


@pytest.mark.parametrize(
    ("function", "types", "values", "reason"), NASTY, ids=lambda x: x if isinstance(x, str) else ""
)
def test_kernels_do_not_raise_for_data(
    function: str, types: list[DataType], values: list[Any], reason: str | None
) -> None:
    args = [Vector(column([v], t)) for v, t in zip(values, types, strict=True)]
    assert run(function, types, args, 1)[1] == [reason]


@pytest.mark.parametrize("t", [INT, BIGINT, DOUBLE, N10, DATE, TS, BOOLEAN], ids=str)
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text(st.sampled_from("0123456789-+.:eE tTNaf"), max_size=24) | st.just("9" * 5000),
        max_size=4,
    )
)
def test_try_cast_is_cast_without_errors(t: DataType, values: list[str]) -> None:
    texts = Vector(pa.array(values, pa.string()))
    context = KernelContext(len(values), t, (STRING,))
    cast, attempt = (call(lookup(f), [texts], context) for f in ("CAST", "TRY_CAST"))  # type: ignore[arg-type]
    assert attempt.errors is None
    assert attempt.values.equals(cast.values) or t == DOUBLE
    failed = np.zeros(len(values), bool) if cast.errors is None else cast.errors.mask
    assert failed.tolist() == cast.values.is_null().to_pylist()
