"""The format 'grok': a record is a line that a pattern takes apart, by the names in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import SqlError
from parser.types import DataType
from sqlengine.formats.base import Option
from sqlengine.formats.logs.base import LENIENT, LogFormat, Parse
from udf.arrays.arrays import RowError
from udf.text.log_parsing import compile_grok, grok

_NO_MATCH: Final = "the pattern does not match it"
# Signs for which RE2 and Java differ (line breaks), besides all that is not ASCII.
_OTHER: Final = "[\\n\\r\\x0b]"


def pattern_text(text: str) -> str:
    """Parses a pattern. ValueError for one that is none."""
    try:
        compile_grok(text)
    except SqlError as error:
        raise ValueError(
            " ".join(filter(None, (error.message, error.detail, error.hint)))
        ) from None
    return text


class GrokFormat(LogFormat):
    """An extension, with the patterns of the function GROK. A group that matches nothing is NULL,
    as in Logstash."""

    name: ClassVar[str] = "grok"
    rest: ClassVar[str] = "fields"
    options: ClassVar[Mapping[str, Option]] = {
        "pattern": Option(
            pattern_text, required=True, doc="for example '%{IP:client} %{WORD:verb}'"
        ),
        "rest-column": Option(default="fields", doc="a MAP of what is no column"),
        "ignore-parse-errors": LENIENT,
    }

    def parse(self, values: Mapping[str, object]) -> Parse:
        """See `LogFormat`."""
        return _Pattern(str(values["pattern"])).parse


@dataclass
class _Fields:
    """The groups of so many lines: columns of texts by name."""

    rows: int
    columns: dict[str, pa.Array]
    bad: dict[int, str] = field(default_factory=dict)

    def column(self, name: str, kind: DataType) -> pa.Array | None:
        """See `Parsed`."""
        return self.columns.get(name)

    def rest(self, known: frozenset[str]) -> list[list[tuple[str, str]]]:
        """See `Parsed`."""
        names = [n for n in self.columns if n not in known]
        if not names:
            return [[] for _ in range(self.rows)]
        rows = zip(*(self.columns[n].to_pylist() for n in names), strict=True)
        return [[(n, v) for n, v in zip(names, r, strict=True) if v is not None] for r in rows]


class _Pattern:
    """A pattern that RE2 applies to whole columns, where it knows it and means the same by it."""

    def __init__(self, text: str) -> None:
        self._text = text
        compiled = compile_grok(text)
        self._names = tuple(dict.fromkeys(compiled.group_names.values()))
        self._groups = compiled.group_names
        self._fast: str | None = compiled.expanded
        try:
            pc.extract_regex(pa.array([""]), compiled.expanded)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            self._fast = None

    def parse(self, texts: pa.Array) -> _Fields:
        """Returns the groups of lines."""
        texts = pc.utf8_rtrim(texts, "\r\n")
        if self._fast is None:
            return self._one_by_one(texts)
        odd = np.asarray(
            pc.or_(pc.invert(pc.string_is_ascii(texts)), pc.match_substring_regex(texts, _OTHER))
        )
        if not odd.any():
            return self._at_once(texts, self._fast)
        rows = [np.flatnonzero(~odd), np.flatnonzero(odd)]
        parts = [
            self._at_once(texts.take(pa.array(rows[0])), self._fast),
            self._one_by_one(texts.take(pa.array(rows[1]))),
        ]
        order = pa.array(np.argsort(np.concatenate(rows)))
        columns = {
            n: pa.concat_arrays([p.columns[n] for p in parts]).take(order) for n in self._names
        }
        bad = {int(r[i]): why for r, p in zip(rows, parts, strict=True) for i, why in p.bad.items()}
        return _Fields(len(texts), columns, bad)

    def _at_once(self, texts: pa.Array, pattern: str) -> _Fields:
        found = pc.extract_regex(texts, pattern)
        columns: dict[str, pa.Array] = {}
        for group, name in self._groups.items():
            column = found.field(found.type.get_field_index(group))
            filled = pc.and_(found.is_valid(), pc.not_equal(column, ""))
            column = pc.if_else(filled, column, pa.scalar(None, pa.string()))
            columns[name] = pc.coalesce(columns[name], column) if name in columns else column
        missed = np.flatnonzero(np.asarray(found.is_null())).tolist()
        return _Fields(len(texts), columns, dict.fromkeys(missed, _NO_MATCH))

    def _one_by_one(self, texts: pa.Array) -> _Fields:
        rows: list[dict[str, str]] = []
        bad: dict[int, str] = {}
        for row, text in enumerate(texts.to_pylist()):
            try:
                pairs = grok(text, self._text)
            except RowError as error:
                rows.append({})
                bad[row] = str(error)
                continue
            if pairs is None:
                bad[row] = _NO_MATCH
            rows.append({k: v for k, v in pairs or [] if v})
        columns = {n: pa.array([r.get(n) for r in rows], pa.string()) for n in self._names}
        return _Fields(len(texts), columns, bad)
