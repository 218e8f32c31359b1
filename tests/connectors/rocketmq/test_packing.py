"""Many records in one message: what went in comes out, and damage is an error."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sqlengine.connectors.rocketmq.packing import packed, rows_in, rows_text, unpacked

RECORDS = st.lists(st.binary(max_size=20), max_size=9)


@given(RECORDS, st.data())
def test_records_come_back(records: list[bytes], data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(records)))
    part = pa.array(records, pa.binary()).slice(begin)
    assert unpacked(packed(part), len(part)).to_pylist() == records[begin:]


@given(st.binary(max_size=60), st.integers(0, 20))
def test_damage_is_an_error(body: bytes, count: int) -> None:
    with suppress(ValueError):
        found = unpacked(body, count)
        assert len(found) == count
        assert 4 * count + sum(map(len, found.to_pylist())) == len(body)


def test_properties_tell_how_many() -> None:
    text = rows_text(12).encode()
    assert [rows_in(t) for t in (text, b"a\x01b\x02" + text, text[:-1])] == [12] * 3
    for other in (b"", b"x" + text, b"_sqlengine_rows\x01-1\x02", b"_sqlengine_rows\x01x\x02"):
        assert rows_in(other) is None
