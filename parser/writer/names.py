"""Names, strings and types as SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sqlglot import exp

from parser.grammar.reserved import RESERVED
from parser.types import DataType, Root, Written, type_name

_PLAIN = re.compile(r"(?:[^\W\d]|\$(?=[\w$]))[\w$]*\Z")
# Words that are not reserved, but mean something where the name of an object can stand.
_SOFT = frozenset("CATALOG DATABASE MODEL CONNECTION JOB VIEW IF FORMAT FINAL EMIT FN".split())


def quoted(text: str) -> str:
    """'text', with its quotes doubled."""
    return "'" + text.replace("'", "''") + "'"


def name(text: str) -> str:
    """A name, in backticks where it would not be one without."""
    if _PLAIN.match(text) and text.upper() not in RESERVED and text.upper() not in _SOFT:
        return text
    return backticked(text)


def backticked(text: str) -> str:
    return "`" + text.replace("`", "``") + "`"


def identifier(node: exp.Expression) -> str:
    """An Identifier as it was written: with or without backticks."""
    if node.args.get("quoted") or not _PLAIN.match(node.name) or node.name.upper() in RESERVED:
        return backticked(node.name)
    return str(node.name)


def path(parts: Iterable[str]) -> str:
    return ".".join(map(name, parts))


def names(items: Iterable[str]) -> str:
    """(a, b)"""
    return f"({', '.join(map(name, items))})"


def options(items: Mapping[str, str]) -> str:
    """('key' = 'value', …)"""
    return "(" + ", ".join(f"{quoted(k)} = {quoted(v)}" for k, v in items.items()) + ")"


def data_type(t: DataType) -> str:
    """A type with NOT NULL behind it, if it is that."""
    return _type(t) if t.nullable else f"{_type(t)} NOT NULL"


def _type(t: DataType) -> str:
    match t.root:
        case Root.CHAR | Root.VARCHAR if t.written is not None:
            return f"{t.root.value}({t.length}) CHARACTER SET {name(t.written.charset)}"
        case Root.ANY:
            return f"ANY({t.precision}, {t.scale})"
        case Root.TIME_LTZ:
            return f"TIME({t.precision}) WITH LOCAL TIME ZONE"
        case Root.INTERVAL_DAY_TIME | Root.INTERVAL_YEAR_MONTH:
            return _interval(t)
        case Root.NAMED:
            return path(t.names)
    return (
        _nested(t)
        if t.children or t.root in (Root.ROW, Root.STRUCTURED, Root.RAW)
        else type_name(t)
    )


def _nested(t: DataType) -> str:
    match t.root:
        case Root.ROW:
            return f"ROW<{_fields(t)}>"
        case Root.STRUCTURED:
            return f"STRUCTURED<{quoted(t.class_name)}{', ' if t.names else ''}{_fields(t)}>"
        case Root.RAW:
            return f"RAW({quoted(t.class_name)}, {quoted(t.names[0])})"
    return f"{t.root.value}<{', '.join(map(data_type, t.children))}>"


def _fields(t: DataType) -> str:
    comments = t.written.comments if t.written is not None else (None,) * len(t.names)
    fields = zip(t.names, t.children, comments, strict=True)
    return ", ".join(
        f"{name(n)} {data_type(c)}" + (f" {quoted(text)}" if text else "") for n, c, text in fields
    )


def _interval(t: DataType) -> str:
    plain = Written(start="SECOND" if t.root is Root.INTERVAL_DAY_TIME else "MONTH")
    written = t.written or plain
    first, last = written.precisions
    if written.end in ("", written.start):
        digits = ", ".join(str(p) for p in (first, last) if p is not None)
        return f"INTERVAL {written.start}" + (f"({digits})" if digits else "")
    start, end = (f"({p})" if p is not None else "" for p in (first, last))
    return f"INTERVAL {written.start}{start} TO {written.end}{end}"
