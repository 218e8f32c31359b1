"""Between Arrow columns and the Python values that users' functions see. Runs in the worker."""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

import pyarrow as pa

from sqlengine.functions.hints import fields_of, without_none

Convert = Callable[[typing.Any], typing.Any]
Failure = tuple[int, str]

# Types whose values Arrow takes as they are; looking at the types of all values is quicker than at
# each value.
_AS_THEY_ARE: dict[pa.DataType, set[type]] = {
    pa.string(): {str, type(None)},
    **{kind: {int, type(None)} for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
}
_NEVER: set[type] = set()
_EXACT = Context(prec=100)
_MS = dt.timedelta(milliseconds=1)


def to_values(column: pa.Array, hint: object) -> list[object]:
    """The column's values: int, str, Decimal, date, … as type hints name them; a ROW is what `hint`
    says, else a dict."""
    # Python's datetime has microseconds.
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    values: list[object] = column.to_pylist()
    convert = _to_value(column.type, hint)
    return values if convert is None else [None if v is None else convert(v) for v in values]


def _to_value(kind: pa.DataType, hint: object) -> Convert | None:
    """Returns the conversion of a value of `to_pylist` for the user's code; None where it stays as
    it is."""
    hint = _bare(hint)
    args = typing.get_args(hint)
    if pa.types.is_struct(kind):
        return _to_row(kind, hint)
    if pa.types.is_map(kind):
        key, value = (
            _optional(_to_value(t, h)) for t, h in _pairs((kind.key_type, kind.item_type), args)
        )
        return lambda items: {key(k): value(v) for k, v in items}
    if pa.types.is_list(kind):
        item = _to_value(kind.value_type, args[0] if args else None)
        return (
            None if item is None else lambda items: [None if v is None else item(v) for v in items]
        )
    if hint is dt.timedelta and pa.types.is_integer(kind):
        return lambda ms: ms * _MS
    return None


def _to_row(kind: pa.DataType, hint: object) -> Convert:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    hints = [h for _, h in fields_of(hint)] or typing.get_args(hint)
    inner = [_optional(_to_value(f.type, h)) for f, h in _pairs(fields, hints, lambda f: (f, None))]
    names = [f.name for f in fields]
    if fields_of(hint) and isinstance(hint, type):
        make: Callable[..., object] = hint
        return lambda row: make(*(c(row[n]) for c, n in zip(inner, names, strict=True)))
    if typing.get_origin(hint) is tuple:
        return lambda row: tuple(c(row[n]) for c, n in zip(inner, names, strict=True))
    return lambda row: {n: c(row[n]) for c, n in zip(inner, names, strict=True)}


def _pairs(
    kinds: Sequence[typing.Any],
    hints: Sequence[object],
    alone: Callable[[typing.Any], tuple[typing.Any, object]] = lambda k: (k, None),
) -> list[tuple[typing.Any, object]]:
    return (
        list(zip(kinds, hints, strict=True))
        if len(kinds) == len(hints)
        else [alone(k) for k in kinds]
    )


def _bare(hint: object) -> object:
    """Strips `| None` and Annotated from a type hint."""
    inner, _ = without_none(hint)
    return (
        _bare(typing.get_args(inner)[0]) if typing.get_origin(inner) is typing.Annotated else inner
    )


def _optional(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def to_column(
    values: list[object], kind: pa.DataType, name: str, *, null: bool
) -> tuple[pa.Array, list[Failure]]:
    """Results as a column of `kind`, and the rows whose value is none of it (`name`: the type in
    SQL). `null`: whether None is a value."""
    failures: list[Failure] = []
    convert = _from_value(kind)
    if convert is not None and not set(map(type, values)) <= _AS_THEY_ARE.get(kind, _NEVER):
        values = [_converted(v, i, convert, name, failures) for i, v in enumerate(values)]
    try:
        column = pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        column = pa.array([_alone(v, i, kind, name, failures) for i, v in enumerate(values)], kind)
    if not null and column.null_count:
        known = {row for row, _ in failures}
        missing = [
            i
            for i, valid in enumerate(column.is_valid().to_pylist())
            if not valid and i not in known
        ]
        failures += [
            (i, f"the function gave None, and its result is {name} NOT NULL") for i in missing
        ]
    return column, failures


def _converted(
    value: object, row: int, convert: Convert, name: str, failures: list[Failure]
) -> object:
    try:
        return None if value is None else convert(value)
    except (TypeError, ValueError, ArithmeticError, AttributeError):
        failures.append((row, _no(value, name)))
        return None


def _alone(
    value: object, row: int, kind: pa.DataType, name: str, failures: list[Failure]
) -> object:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        failures.append((row, _no(value, name)))
        return None
    return value


def _no(value: object, name: str) -> str:
    return f"the function gave {repr(value)[:100]}, which is no {name}"


def _from_value(kind: pa.DataType) -> Convert | None:
    """Returns the conversion of a result before Arrow takes it; None where it stays as it is."""
    if pa.types.is_decimal(kind):
        unit = Decimal(1).scaleb(-kind.scale)
        return lambda v: _decimal(v).quantize(unit, ROUND_HALF_UP, _EXACT)
    if pa.types.is_timestamp(kind):
        return _aware if kind.tz else _naive
    if pa.types.is_time(kind):
        return lambda v: v.replace(microsecond=v.microsecond // 1000 * 1000, tzinfo=None)
    if pa.types.is_struct(kind):
        return _from_row(kind)
    if pa.types.is_map(kind):
        key, value = (_optional(_from_value(t)) for t in (kind.key_type, kind.item_type))
        return lambda items: [(key(k), value(v)) for k, v in _items(items)]
    if pa.types.is_list(kind):
        item = _optional(_from_value(kind.value_type))
        return lambda items: [item(v) for v in _elements(items)]
    if pa.types.is_integer(kind):
        return _integer
    if pa.types.is_string(kind):
        return _text
    return None


def _decimal(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        raise TypeError
    return Decimal(value)


def _integer(value: object) -> object:
    """Floats and bools are no integers: what Arrow would cut silently is an error here."""
    if isinstance(value, dt.timedelta):
        return value // _MS
    if isinstance(value, bool | float):
        raise TypeError
    return value


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise TypeError
    return value


def _aware(value: dt.datetime) -> dt.datetime:
    if value.tzinfo is None:
        raise ValueError
    return value


def _naive(value: dt.datetime) -> dt.datetime:
    if value.tzinfo is not None:
        raise ValueError
    return value


def _from_row(kind: pa.DataType) -> Convert:
    names = [kind.field(i).name for i in range(kind.num_fields)]
    inner = [_optional(_from_value(kind.field(i).type)) for i in range(kind.num_fields)]

    def convert(value: object) -> dict[str, object]:
        return {n: c(v) for n, c, v in zip(names, inner, row_values(value, names), strict=True)}

    return convert


def row_values(value: object, names: Sequence[str]) -> Iterable[object]:
    """The fields of a dataclass, a dict (by name), a tuple or a list (by place). ValueError for too
    few or many."""
    if isinstance(value, Mapping):
        if not value.keys() <= set(names):
            raise ValueError
        return [value.get(n) for n in names]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, f.name) for f in dataclasses.fields(value)]
    if not isinstance(value, tuple | list) or len(value) != len(names):
        raise ValueError
    return value


def _items(value: object) -> Iterable[tuple[object, object]]:
    if not isinstance(value, Mapping):
        raise TypeError
    return value.items()


def _elements(value: object) -> Iterable[object]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError
    return value
