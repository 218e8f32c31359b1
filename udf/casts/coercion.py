"""Flink's rules for types that meet: common types, implicit casts of comparisons, assignments and
explicit casts.

All functions ignore time attributes; results never carry one."""

from __future__ import annotations

from collections.abc import Sequence

from parser.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    MAX_LENGTH,
    NULL,
    STRING,
    DataType,
    Root,
    TimeAttribute,
    decimal,
)

MAX_PRECISION = 38
_INTEGER_DIGITS = {Root.TINYINT: 3, Root.SMALLINT: 5, Root.INT: 10, Root.BIGINT: 19}
_INTEGER_ORDER = tuple(_INTEGER_DIGITS)
# What a number and a text are in an order: the text may be beyond the number's own type.
_WITH_TEXT = {**dict.fromkeys(_INTEGER_ORDER, BIGINT), Root.DECIMAL: decimal(38, 18)}
_APPROXIMATE = (Root.FLOAT, Root.DOUBLE)
_NESTED = (Root.ARRAY, Root.MAP, Root.MULTISET, Root.ROW, Root.STRUCTURED)
_UNORDERED = (*_NESTED, Root.VARIANT, Root.BITMAP)
_NEVER_TEXT = (Root.BOOLEAN, Root.INTERVAL_DAY_TIME, Root.INTERVAL_YEAR_MONTH)


def common_type(types: Sequence[DataType]) -> DataType | None:
    """The type that all branches of a CASE or IF, all inputs of a UNION and all rows of VALUES are
    cast to; None where there is none. Of FLOAT and DOUBLE, and of TIMESTAMP and TIMESTAMP_LTZ, the
    first wins, as in Flink."""
    return _fold(types, first_wins=True)


def merged_type(types: Sequence[DataType]) -> DataType | None:
    """Returns the common type of COALESCE, IFNULL, GREATEST and LEAST: DOUBLE and TIMESTAMP_LTZ
    win. None where there is none."""
    return _fold(types, first_wins=False)


def _fold(types: Sequence[DataType], *, first_wins: bool) -> DataType | None:
    # NULL takes the type of the others, and only makes the result nullable.
    typed = [t.as_attribute(TimeAttribute.NONE) for t in types if t.root is not Root.NULL]
    if not typed:
        return NULL if types else None
    nullable = any(t.nullable for t in types)
    result: DataType | None = typed[0]
    for t in typed[1:]:
        result = None if result is None else _pair(result, t, first_wins)
    return None if result is None else result.with_nullable(nullable)


def _pair(a: DataType, b: DataType, first_wins: bool) -> DataType | None:
    if a.same_as(b):
        return a
    if a.is_numeric and b.is_numeric:
        return _numeric(a, b, first_wins)
    if (a.is_string and b.is_string) or (a.is_binary and b.is_binary):
        return _text(a, b)
    if a.is_timestamp and b.is_timestamp:
        root = a.root if first_wins or a.root is b.root else Root.TIMESTAMP_LTZ
        return DataType(root, precision=max(a.precision, b.precision))
    if a.root is b.root is Root.TIME:
        return a if a.precision >= b.precision else b
    return _nested(a, b, first_wins)


def _numeric(a: DataType, b: DataType, first_wins: bool) -> DataType:
    approximate = [t for t in (a, b) if t.root in _APPROXIMATE]
    if Root.DECIMAL in (a.root, b.root):
        # With a DECIMAL an approximate type always gives DOUBLE, also for FLOAT.
        return DOUBLE if approximate else _wider_decimal(as_decimal(a), as_decimal(b))
    if approximate:
        return approximate[0] if first_wins or len(approximate) == 1 else DOUBLE
    return max(a, b, key=lambda t: _INTEGER_ORDER.index(t.root))


def as_decimal(t: DataType) -> DataType:
    """An integer type as the DECIMAL that holds all its values; DECIMAL stays."""
    return (
        t
        if t.root is Root.DECIMAL
        else decimal(_INTEGER_DIGITS[t.root], 0).with_nullable(t.nullable)
    )


def _wider_decimal(a: DataType, b: DataType) -> DataType:
    """Returns the DECIMAL of both. Where not all digits fit, those before the point are kept."""
    digits = max(a.precision - a.scale, b.precision - b.scale)
    scale = min(max(a.scale, b.scale), MAX_PRECISION - digits)
    return decimal(digits + scale, scale)


def _text(a: DataType, b: DataType) -> DataType:
    fixed, varying = (Root.CHAR, Root.VARCHAR) if a.is_string else (Root.BINARY, Root.VARBINARY)
    # CHAR only of two CHAR of one length, for else one of them would be padded.
    root = fixed if a.root is b.root is fixed and a.length == b.length else varying
    return DataType(root, length=max(a.length, b.length))


def _nested(a: DataType, b: DataType, first_wins: bool) -> DataType | None:
    if a.root not in _NESTED or not _same_shape(a, b):
        return None
    children = tuple(
        _fold((x, y), first_wins=first_wins) for x, y in zip(a.children, b.children, strict=True)
    )
    known = tuple(c for c in children if c is not None)
    return (
        DataType(a.root, children=known, names=a.names, class_name=a.class_name)
        if len(known) == len(children)
        else None
    )


def comparison_types(
    left: DataType, right: DataType, *, equality: bool
) -> tuple[DataType, DataType] | None:
    """Returns the types that the sides of a comparison are cast to; None where Flink refuses to
    compare.

    A string is cast to a date or time, and, for an order but not for an equality, to a number or a
    BOOLEAN. Equality with a BOOLEAN or an interval takes the text as it is (and is never TRUE).
    Arrays, maps and rows are equal or not, but have no order."""
    # NULL compares as the type of the other side.
    if Root.NULL in (left.root, right.root):
        target = right if left.root is Root.NULL else left
        return target.with_nullable(left.nullable), target.with_nullable(right.nullable)
    if left.is_numeric and right.is_numeric:
        return _numeric_comparison(left, right)
    if left.is_string != right.is_string:
        return _comparison_with_text(left, right, equality=equality)
    common = merged_type((left, right))
    if common is None or (common.root in _UNORDERED and not equality):
        return None
    # Lengths differ without harm: texts and bytes compare as they are.
    if left.is_string or left.is_binary:
        return left, right
    return common.with_nullable(left.nullable), common.with_nullable(right.nullable)


def _comparison_with_text(
    left: DataType, right: DataType, *, equality: bool
) -> tuple[DataType, DataType] | None:
    """The types of a comparison of a string with another type."""
    text, other = (left, right) if left.is_string else (right, left)
    # Left as they are, so that the kernel answers without a cast that could fail.
    if equality and other.root in _NEVER_TEXT:
        return left, right
    ordered = other.is_numeric or other.root is Root.BOOLEAN
    if not _is_temporal(other) and (equality or not ordered):
        return None
    cast = _WITH_TEXT.get(other.root, other).with_nullable(text.nullable)
    return (cast, right) if left.is_string else (left, cast)


def _numeric_comparison(left: DataType, right: DataType) -> tuple[DataType, DataType]:
    if left.root is right.root:  # decimals of any two scales compare exactly as they are
        return left, right
    common = _numeric(left, right, first_wins=True)  # of FLOAT and DOUBLE, as in Flink
    # Two decimals of their own scales: a common one might not fit 38 digits.
    if common.root is Root.DECIMAL:
        return as_decimal(left), as_decimal(right)
    return common.with_nullable(left.nullable), common.with_nullable(right.nullable)


def in_types(types: Sequence[DataType]) -> tuple[DataType, ...] | None:
    """Returns the types that the value and the list of an IN are cast to; None where Flink refuses.

    As in Flink a list of strings goes to a number's type, but a string is compared with the text of
    numbers."""
    common = merged_type(types)
    # A mixture has no common type, but IN still takes some.
    if common is None:
        common = _in_type_of_mixed(types)
    elif types[0].root is Root.FLOAT:
        common = FLOAT
    return None if common is None else tuple(common.with_nullable(t.nullable) for t in types)


def _in_type_of_mixed(types: Sequence[DataType]) -> DataType | None:
    """The type of an IN over types that have no common one."""
    value, listed = types[0], merged_type(types[1:])
    if _is_temporal(value):
        compatible = (t.same_as(value) or t.is_string or t.root is Root.NULL for t in types)
        return value if all(compatible) else None
    if listed is None:
        return None
    if listed.is_string and (value.is_numeric or value.root is Root.BOOLEAN):
        return value
    return STRING if value.is_string and listed.is_numeric else None


def _is_temporal(t: DataType) -> bool:
    return t.is_timestamp or t.root in (Root.DATE, Root.TIME)


_NUMBERS = (*_INTEGER_ORDER, Root.FLOAT, Root.DOUBLE, Root.DECIMAL)
_TEXTS = (Root.CHAR, Root.VARCHAR)
_TIMESTAMPS = (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)
_PREDEFINED = (
    *_NUMBERS, *_TEXTS, *_TIMESTAMPS, Root.BOOLEAN, Root.DATE, Root.TIME,
    Root.INTERVAL_DAY_TIME, Root.INTERVAL_YEAR_MONTH,
)  # fmt: skip

# target -> sources that are cast without being asked (INSERT), and those that CAST takes besides.
_CASTS: dict[Root, tuple[tuple[Root, ...], tuple[Root, ...]]] = {
    Root.CHAR: ((Root.CHAR,), (*_PREDEFINED, Root.BINARY, Root.VARBINARY, Root.BITMAP, *_NESTED)),
    Root.VARCHAR: (_TEXTS, (*_PREDEFINED, Root.BINARY, Root.VARBINARY, Root.BITMAP, *_NESTED)),
    Root.BOOLEAN: ((), (*_TEXTS, *_NUMBERS)),
    Root.BINARY: ((Root.BINARY,), (*_TEXTS, Root.VARBINARY)),
    Root.VARBINARY: ((Root.BINARY, Root.VARBINARY), _TEXTS),
    Root.DECIMAL: (_NUMBERS, (*_TEXTS, Root.BOOLEAN)),
    Root.TINYINT: (_INTEGER_ORDER[:1], (*_NUMBERS, *_TEXTS, Root.BOOLEAN)),
    Root.SMALLINT: (_INTEGER_ORDER[:2], (*_NUMBERS, *_TEXTS, Root.BOOLEAN)),
    Root.INT: (_INTEGER_ORDER[:3], (*_NUMBERS, *_TEXTS, Root.BOOLEAN)),
    Root.BIGINT: (_INTEGER_ORDER, (*_NUMBERS, *_TEXTS, Root.BOOLEAN)),
    Root.FLOAT: ((*_INTEGER_ORDER, Root.FLOAT, Root.DECIMAL), (*_NUMBERS, *_TEXTS, Root.BOOLEAN)),
    Root.DOUBLE: (_NUMBERS, (*_TEXTS, Root.BOOLEAN)),
    Root.DATE: ((Root.DATE, Root.TIMESTAMP), (*_TIMESTAMPS, *_TEXTS)),
    Root.TIME: ((Root.TIME, Root.TIMESTAMP), (*_TIMESTAMPS, *_TEXTS)),
    Root.TIMESTAMP: (_TIMESTAMPS, (Root.DATE, Root.TIME, *_TEXTS)),
    Root.TIMESTAMP_LTZ: (_TIMESTAMPS, (Root.DATE, Root.TIME, *_TEXTS)),
    Root.INTERVAL_YEAR_MONTH: ((Root.INTERVAL_YEAR_MONTH,), ()),
    Root.INTERVAL_DAY_TIME: ((Root.INTERVAL_DAY_TIME,), ()),
}


def can_assign(source: DataType, target: DataType) -> bool:
    """True if INSERT casts `source` implicitly to a column of `target`.

    Nullability is the sink's business."""
    if source.root is Root.NULL or source.same_as(target):
        return True
    if target.root in _NESTED:
        return _same_shape(source, target) and all(
            map(can_assign, source.children, target.children)
        )
    return source.root in _CASTS.get(target.root, ((), ()))[0]


def can_cast(source: DataType, target: DataType) -> bool:
    """True if CAST takes a `source` to a `target`.

    Nothing is cast to a VARIANT or BITMAP, not even one."""
    if target.root in (Root.VARIANT, Root.BITMAP):
        return source.root is Root.NULL
    if can_assign(source, target):
        return True
    if target.root in _NESTED:
        # Part by part: an ARRAY<INT> is cast to an ARRAY<STRING>, but not to a MAP.
        return _same_shape(source, target) and all(map(can_cast, source.children, target.children))
    return source.root in _CASTS.get(target.root, ((), ()))[1]


def _same_shape(source: DataType, target: DataType) -> bool:
    same = source.root is target.root and source.class_name == target.class_name
    return same and len(source.children) == len(target.children)


def sum_type(a: DataType, b: DataType) -> DataType:
    """The type of `a + b` and `a - b` for numbers (nullability apart)."""
    exact = _not_decimal(a, b)
    if exact is not None:
        return exact
    a, b = as_decimal(a), as_decimal(b)
    scale = max(a.scale, b.scale)
    # One digit more before the point for the carry.
    return _adjusted(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def product_type(a: DataType, b: DataType) -> DataType:
    exact = _not_decimal(a, b)
    if exact is not None:
        return exact
    a, b = as_decimal(a), as_decimal(b)
    return _adjusted(a.precision + b.precision + 1, a.scale + b.scale)


def quotient_type(a: DataType, b: DataType) -> DataType:
    exact = _not_decimal(a, b)
    if exact is not None:
        return exact
    a, b = as_decimal(a), as_decimal(b)
    # At least six digits behind the point, as the rule of division wants.
    scale = max(6, a.scale + b.precision + 1)
    return _adjusted(a.precision - a.scale + b.scale + scale, scale)


def modulus_type(a: DataType, b: DataType) -> DataType | None:
    """The type of `a % b`: that of `b` for integers; None unless both are exact."""
    if FLOAT.root in (a.root, b.root) or DOUBLE.root in (a.root, b.root):
        return None
    if a.is_integer and b.is_integer:
        return b
    a, b = as_decimal(a), as_decimal(b)
    scale = max(a.scale, b.scale)
    # A remainder is smaller than both, so the fewer digits before the point suffice.
    return _adjusted(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def _not_decimal(a: DataType, b: DataType) -> DataType | None:
    # Two of one root need no search: the common type of equals is the first.
    common = _numeric(a, b, first_wins=True) if a.root is not b.root else a
    return None if common.root is Root.DECIMAL else common


def _adjusted(precision: int, scale: int) -> DataType:
    """Returns a DECIMAL of at most 38 digits.

    Excess digits are cut from the fraction, of which at least six stay."""
    if precision > MAX_PRECISION:
        # Digits before the point go first; of the fraction six stay, or all if there are fewer.
        scale = max(MAX_PRECISION - (precision - scale), min(scale, 6))
        precision = MAX_PRECISION
    return decimal(precision, scale)


def concat_type(a: DataType, b: DataType) -> DataType:
    """The type of `a || b`: lengths add up; CHAR only of two CHAR."""
    length = min(MAX_LENGTH, a.length + b.length)
    fixed, varying = (Root.CHAR, Root.VARCHAR) if a.is_string else (Root.BINARY, Root.VARBINARY)
    return DataType(fixed if a.root is b.root is fixed else varying, length=length)
