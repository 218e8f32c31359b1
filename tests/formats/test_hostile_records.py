"""Records that nobody should send: each is a bad record or a row of every format, and never an
error of another kind. Samples are in hostile_records.json: texts of bytes (as Latin-1), and how
often each comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from parser.types import BIGINT, INT, STRING, Schema, array, decimal, map_of, timestamp
from sqlengine.formats.base import Decoded, Decoder
from sqlengine.formats.logs.base import LogFormat
from sqlengine.formats.registry import format_names, get_format
from tests.formats.messages import options as message_options
from tests.servers.registry import Registry, running

SAMPLES = {
    sample["name"]: b"".join(text.encode("latin-1") * times for text, times in sample["record"])
    for sample in json.loads(Path(__file__).with_name("hostile_records.json").read_text())
}
FORMATS = [name for name in format_names() if get_format(name).capabilities.has_records]
TABLE = Schema.of(id=BIGINT, name=STRING, d=decimal(20, 3), at=timestamp(3), tags=array(STRING))
ORDER = Schema.of(i=INT, s=STRING, a=array(INT), m=map_of(STRING, BIGINT), at=timestamp(9))


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with running() as opened:
        yield opened


def decoder_of(name: str, registry: Registry) -> Decoder:
    """The decoder itself, without what guards it."""
    format_, options = get_format(name), dict[str, str]()
    schema = TABLE
    if name == "protobuf":
        schema, options = ORDER, message_options()
    elif name == "raw":
        schema = Schema.of(id=BIGINT)
    elif "confluent" in name:
        options = {"url": registry.url}
    elif isinstance(format_, LogFormat):
        rest = {format_.rest: map_of(STRING, STRING)}
        schema = Schema.of(id=BIGINT, name=STRING, message=STRING, timestamp=timestamp(3), **rest)
        options = {"pattern": "%{INT:id} %{GREEDYDATA:message}"} if name == "grok" else {}
    return format_.decoder(schema, options)


def outcome(decoded: Decoded) -> tuple[dict[int, str], list[int]]:
    """The reasons of bad records, and the records of which there are rows."""
    places = range(decoded.num_rows) if decoded.rows is None else decoded.rows.tolist()
    assert all(len(column) == decoded.num_rows for column in decoded.columns)
    for column in decoded.columns:
        column.validate(full=True)
    return {bad.row: bad.reason for bad in decoded.bad}, list(places)


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_records_are_bad_or_rows(name: str, registry: Registry) -> None:
    """The same alone as beside others."""
    decoder, records = decoder_of(name, registry), list(SAMPLES.values())
    bad, rows = outcome(decoder.decode(pa.array(records, pa.binary())))
    for number, record in enumerate(records):
        reasons, places = outcome(decoder.decode(pa.array([record], pa.binary())))
        sample = list(SAMPLES)[number]
        assert (number in bad) == bool(reasons), sample
        assert len(places) == rows.count(number), sample
        assert not (places and reasons), sample
    assert bad
    assert all(reason and len(reason) < 1000 for reason in bad.values()), bad
