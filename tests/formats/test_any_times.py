"""Times in JSON of either standard, with or without an offset from UTC."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from parser.types import Column, DataType, Schema, timestamp, timestamp_ltz
from sqlengine.formats.registry import get_format
from sqlengine.formats.times import ANY

NOON = "2024-05-01T12:00:00"
# What stands in the record, and the time in UTC that it is.
LOCAL = {
    "2024-05-01 12:00:00": NOON,
    "2024-05-01T12:00:00": NOON,
    "2024-05-01t12:00": NOON,
    "2024-05-01 12:00:00.250": NOON + ".250",
    "2024-05-01T12:00:00.250": NOON + ".250",
}
OFFSET = {
    "2024-05-01T12:00:00Z": NOON,
    "2024-05-01 12:00:00Z": NOON,
    "2024-05-01T14:00:00+02:00": NOON,
    "2024-05-01T14:00:00+0200": NOON,
    "2024-05-01T04:30:00.500-07:30": NOON + ".500",
    "2024-05-02T00:00:00+12": NOON,
}
BAD = ("", "noon", "2024-05-01", "2024-13-01T12:00:00Z", "2024-05-01T12:00:00+19:00", "2024-05-01Z")


def read(texts: list[str], kind: DataType, standard: str) -> tuple[list[str], list[str]]:
    """The times that are read, and the reasons of the records that are not."""
    decoder = get_format("json").decoder(
        Schema((Column("ts", kind),)), {"timestamp-format.standard": standard}
    )
    records = pa.array([json.dumps({"ts": t}).encode() for t in texts], pa.binary())
    decoded = decoder.decode(records)
    column = decoded.columns[0] if decoded.columns else pa.array([], kind.arrow)
    times = [str(t.as_py().replace(tzinfo=None).isoformat(timespec="milliseconds")) for t in column]
    return [t.removesuffix(".000") for t in times], [b.reason for b in decoded.bad]


@pytest.mark.parametrize("first", ["2024-05-01 12:00:00", "2024-05-01T14:00:00+02:00", "x"])
@pytest.mark.parametrize("zoned", [False, True])
def test_both_standards_are_read(first: str, zoned: bool) -> None:
    kind = timestamp_ltz(3) if zoned else timestamp(3)
    wanted = OFFSET if zoned else LOCAL | OFFSET
    texts = [*([first] if first in wanted else []), *wanted]
    times, bad = read(texts, kind, ANY)
    assert (times, bad) == ([wanted[t] for t in texts], [])
    for text in wanted:
        assert read([text] * 3, kind, ANY) == ([wanted[text]] * 3, [])


@pytest.mark.parametrize("text", BAD)
def test_others_are_not(text: str) -> None:
    times, bad = read([text], timestamp(3), ANY)
    assert (times, len(bad)) == ([], 1)


def test_the_reason_names_the_option() -> None:
    (reason,) = read(["2024-05-01T12:00:00Z"], timestamp(3), "SQL")[1]
    assert reason == (
        "column 'ts': \"2024-05-01T12:00:00Z\" is not a TIMESTAMP(3) of the standard SQL:"
        " set 'json.timestamp-format.standard' = 'ANY'"
    )
    (reason,) = read(["2024-05-01T12:00:00"], timestamp_ltz(3), ANY)[1]
    assert reason.endswith("is not a TIMESTAMP_LTZ(3): it has no offset from UTC")
