"""Where CSV records end does not depend on how a file is read."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlengine.formats.csv_lines import CsvFraming, _pattern
from sqlengine.formats.csv_values import Dialect
from sqlengine.formats.lines import LineFraming


def records(framing: CsvFraming | LineFraming, data: bytes) -> list[bytes]:
    return framing.split(data, complete=True).records.to_pylist()


_TEXT = st.text("a,\"\\\n\r'é", max_size=30).map(str.encode)
_DIALECTS = st.sampled_from(
    [Dialect(), Dialect(escape="\\"), Dialect(quote=""), Dialect(quote="'", delimiter="é")]
)


@given(_TEXT, _DIALECTS, st.integers(0, 40))
def test_a_file_read_in_two_parts_gives_the_same_records(
    data: bytes, dialect: Dialect, cut: int
) -> None:
    framing = CsvFraming(dialect)
    first = framing.split(data[:cut], complete=cut >= len(data))
    rest = data[first.size :]
    assert first.records.to_pylist() + records(framing, rest) == records(framing, data)


@given(_TEXT, _DIALECTS)
def test_records_lie_side_by_side(data: bytes, dialect: Dialect) -> None:
    found = CsvFraming(dialect).split(data, complete=True)
    assert found.size == len(data)
    assert found.starts.tolist() == [0, *found.ends.tolist()][: len(found.ends)]
    for record, start in zip(found.records.to_pylist(), found.starts.tolist(), strict=True):
        assert data[start : start + len(record)] == record


@given(st.text("a,é \n", max_size=30).map(str.encode), _DIALECTS, st.booleans())
def test_without_quotes_records_are_lines(data: bytes, dialect: Dialect, complete: bool) -> None:
    """The way without a look at each record finds the same."""
    assert (
        CsvFraming(dialect)
        .split(data, complete=complete)
        .records.equals(LineFraming().split(data, complete=complete).records)
    )


@pytest.mark.parametrize("data", [b'1,"a', b'1,"a\n', b'1,"a\nb\n2,c\n', b"1,a\r"])
def test_what_may_go_on_is_left_for_later(data: bytes) -> None:
    assert CsvFraming(Dialect()).split(data, complete=False).size == 0


@given(st.text('ab,"\\\n\r', max_size=24), st.sampled_from(["", "\\"]))
def test_records_are_the_same_without_possessive_repetitions(text: str, escape: str) -> None:
    """Which a Python may not know well: see `_record`."""
    pattern = _pattern(b",", b'"', re.escape(escape.encode()))
    plain = re.compile(pattern.replace(b"*+", b"*"), re.DOTALL)
    possessive = re.compile(pattern, re.DOTALL)
    if sys.version_info < (3, 11, 5):
        return
    data, at = text.encode(), 0
    while (found := possessive.match(data, at)) is not None:
        other = plain.match(data, at)
        assert other is not None
        assert other.groups() == found.groups()
        at = found.end()
    assert plain.match(data, at) is None
