"""Tables over topics of a real RocketMQ are written: what goes in comes out, with keys, tags, properties
and delays where the options say so."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from datetime import time as clock_time
from decimal import Decimal

import numpy as np
import pytest

from parser.errors import ExecutionError
from parser.types import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    Schema,
    array,
    decimal,
    map_of,
    row,
    timestamp,
    timestamp_ltz,
)  # fmt: skip
from parser.types import time as time_of_day
from sqlengine.batch import Batch, RowKind, from_pydict
from sqlengine.broker.rocketmq.admin import COMPACTED
from sqlengine.broker.rocketmq.messages import properties_of
from sqlengine.connectors.base import Sink
from sqlengine.connectors.registry import get_connector, open_sink, open_source
from sqlengine.formats.registry import decoder_for
from tests.connectors.rocketmq.cluster import Cluster, ids, messages, rows
from tests.connectors.tables import SCHEMA, environment, table
from tests.support import eventually

ALL = Schema.of(
    b=BOOLEAN, i=INT, l=BIGINT, d=DOUBLE, n=decimal(20, 4), s=STRING, r=BYTES, day=DATE, t=time_of_day(3),
    ts=timestamp(3), ltz=timestamp_ltz(3), a=array(INT), m=map_of(STRING, DOUBLE), w=row(("x", "y"), (INT, STRING)),
)  # fmt: skip
VALUES: list[object] = [
    True, -7, 2**62, 0.1, Decimal("1234567890123456.7891"), 'ä€😀"\x01\n', bytes(range(256)),
    date(1999, 12, 31), clock_time(23, 59, 59, 999_000), datetime(2026, 1, 31, 12, 0, 0, 123_000),
    datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC), [1, None], [("", None), ("k", 0.5)], {"x": 1, "y": None},
]  # fmt: skip
TAGS = {"tags": STRING, "keys": STRING, "properties": map_of(STRING, STRING)}


def batch(found: list[int], schema: Schema = SCHEMA, **columns: Sequence[object]) -> Batch:
    given: dict[str, Sequence[object]] = {"id": found, "name": [f"n{i}" for i in found]}
    given |= columns
    return from_pydict(schema, {c.name: given[c.name] for c in schema})


def written(cluster: Cluster, sink: Sink, epoch: int, *batches: Batch) -> int:
    for each in batches:
        sink.write(each)
    count = sink.commit(epoch)
    cluster.settle()
    return count


@pytest.mark.parametrize("rows_per_message", ["1", "9"])
def test_values_of_all_types_come_back(cluster: Cluster, rows_per_message: str) -> None:
    topic = cluster.topic()
    declared = table(cluster.options(topic, rowsPerMessage=rows_per_message), ALL)
    given = from_pydict(ALL, {c.name: [v, None] for c, v in zip(ALL, VALUES, strict=True)})
    sink = open_sink(declared, environment())
    assert written(cluster, sink, 1, given) == 2
    sink.close()
    source = open_source(declared, environment())
    chunk = eventually(lambda: source.read("broker-a:0", 0, max_rows=9))
    found = decoder_for(declared).decode(chunk.records)
    assert not found.bad
    assert [c.to_pylist() for c in found.columns] == [c.to_pylist() for c in given.columns]
    source.close()


def test_rows_go_to_the_queue_of_their_keys_in_order(cluster: Cluster) -> None:
    topic = cluster.topic(3, kind="FIFO")
    options = cluster.options(topic, keyColumns="name")
    sink = open_sink(table(options), environment())
    names = [f"k{i % 5}" for i in range(100)]
    assert written(cluster, sink, 1, batch(list(range(50)), name=names[:50])) == 50
    assert written(cluster, sink, 2, batch(list(range(50, 100)), name=names[50:])) == 50
    found = rows(options)
    for key in range(5):
        assert [r["id"] for r in found if r["name"] == f"k{key}"] == list(range(key, 100, 5))
    places = {(properties_of(m.properties)["KEYS"], m.queue) for m in messages(topic)}
    assert len(places) == 5
    sink.close()


def test_metadata_is_written_and_read(cluster: Cluster) -> None:
    topic = cluster.topic(kind="DELAY")
    declared = table(cluster.options(topic), metadata=TAGS, virtual=False)
    sink = open_sink(declared, environment())
    columns: dict[str, Sequence[object]] = {
        "m_tags": ["a", None], "m_keys": ["k1 k2", None],
        "m_properties": [[("p", "q"), ("TAGS", "of the system")], None],
    }  # fmt: skip
    assert written(cluster, sink, 1, batch([1, 2], declared.schema, **columns)) == 2
    sink.close()
    read = {**TAGS, "offset": BIGINT, "timestamp": timestamp_ltz(3)}
    source = open_source(table(cluster.options(topic), metadata=read), environment())
    chunk = eventually(lambda: source.read("broker-a:0", 0, max_rows=9))
    found = {key: column.to_pylist() for key, column in chunk.metadata.items()}
    assert found.pop("timestamp")[0].year > 2000
    assert found == {
        "tags": ["a", None], "keys": ["k1 k2", None], "properties": [[("p", "q")], []], "offset": [0, 1],
    }  # fmt: skip
    source.close()


def test_tags_and_keys_come_from_columns(cluster: Cluster) -> None:
    topic = cluster.topic()
    options = {"isDynamicTag": "true", "dynamicTagColumn": "name", "keyColumns": "id,name"}
    options |= {"dynamicTagColumnWriteIncluded": "false"}
    sink = open_sink(table(cluster.options(topic, **options)), environment())
    assert written(cluster, sink, 1, batch([1, 2], name=["x", None])) == 2
    assert [m.body for m in messages(topic)] == [b'{"id":1}', b'{"id":2}']
    told = [properties_of(m.properties) for m in messages(topic)]
    assert [(t.get("TAGS"), t["KEYS"]) for t in told] == [("x", "1 x"), (None, "2")]
    sink.close()


def test_delayed_messages_come_later(cluster: Cluster) -> None:
    topic = cluster.topic(kind="DELAY")
    options = cluster.options(topic, delay="1 s")
    sink = open_sink(table(options), environment())
    began = time.monotonic()
    assert written(cluster, sink, 1, batch([1, 2])) == 2
    eventually(lambda: sorted(ids(options), key=str) == [1, 2])
    assert time.monotonic() - began > 0.9
    sink.close()


@pytest.mark.parametrize("packing", ["ZSTD", "none"])
def test_large_rows_come_and_too_large_ones_are_refused(cluster: Cluster, packing: str) -> None:
    topic = cluster.topic()
    options = cluster.options(topic, maxMessageSize=str(11 << 20), compressType=packing)
    declared = table(options)
    sink = open_sink(declared, environment())
    large = random.Random(1).randbytes(5 << 20).hex()  # 10 MB, of which half can be packed
    names = ["s", "m" * 100_000, large, None]
    assert written(cluster, sink, 1, batch([1, 2, 3, 4], name=names)) == 4
    assert [r["name"] for r in rows(options)] == names
    size = sum(len(m.body) for m in messages(topic))
    assert size > 10 << 20 if packing == "none" else size < 6 << 20
    too_large = batch([5], name=["x" * (11 << 20)])
    connector = get_connector("rocketmq")
    assert connector is not None
    for refuses in (sink.write, lambda rows: connector.encode(declared, rows)):
        with pytest.raises(ExecutionError, match="too large for a message"):
            refuses(too_large)
    sink.close()


def test_many_rows_share_a_message(cluster: Cluster) -> None:
    topic = cluster.topic(2)
    options = cluster.options(topic, keyColumns="name", rowsPerMessage="100")
    declared = table(options, metadata={"offset": BIGINT})
    sink = open_sink(declared, environment())
    names = [f"k{i % 7}" for i in range(1500)]
    for epoch in (1, 2):
        assert written(cluster, sink, epoch, batch(list(range(1500)), name=names)) == 1500
    assert len(messages(topic)) <= 34
    found = rows(options)
    for key in range(7):
        assert [r["id"] for r in found if r["name"] == f"k{key}"] == [*range(key, 1500, 7)] * 2
    source = open_source(declared, environment())
    chunk = eventually(lambda: source.read("broker-a:0", 0, max_rows=150))
    assert (chunk.num_rows, chunk.end) == (200, 2)
    assert chunk.metadata["offset"].to_pylist() == [0] * 100 + [1] * 100
    source.close()
    sink.close()


def test_upserts_and_tombstones_in_a_compacted_topic(cluster: Cluster) -> None:
    topic = cluster.topic(attributes=COMPACTED)
    options = cluster.options(topic, upsert="true")
    declared = replace(table(options), primary_key=("id",))
    sink = open_sink(declared, environment())
    kinds = [RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE]
    changes = replace(batch([1, 2, 1, 2]), kinds=np.array(kinds, np.int8))
    assert written(cluster, sink, 1, changes) == 4
    source = open_source(declared, environment())
    chunk = eventually(lambda: source.read("broker-a:0", 0, max_rows=9))
    assert chunk.records is not None
    assert chunk.kinds is not None
    assert chunk.records.to_pylist()[-1] == b'{"id":2}'
    assert chunk.kinds.tolist() == [RowKind.UPDATE_AFTER] * 3 + [RowKind.DELETE]
    source.close()
    sink.close()
