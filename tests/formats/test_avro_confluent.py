"""Records with the id of their schema in front, and the registry that has it."""

from __future__ import annotations

import base64
import io
import json
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from parser.errors import ExecutionError, OptionError, PlanError
from parser.types import BIGINT, INT, STRING, Schema
from sqlengine.batch import RowKind, from_pydict
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.connectors.registry import connect_formats, open_sink, open_source, validate
from sqlengine.formats.avro import schema_registry
from sqlengine.formats.avro.schema_registry import Access, SchemaRegistry
from sqlengine.formats.base import OutOfReach
from sqlengine.formats.keyed.decoder import KeyedDecoder
from sqlengine.formats.keyed.fields import key_part
from sqlengine.formats.registry import (
    decoder_for,
    encoder_for,
    get_format,
    key_encoder_of,
    key_preparation_of,
    preparation_of,
)
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from sqlengine.system.secrets import Secrets
from tests.connectors.tables import environment, table
from tests.servers.registry import Registry, running
from tests.sql.golden import Collected
from tests.support import eventually

SCHEMA = Schema.of(id=BIGINT, name=STRING)
ROWS = from_pydict(SCHEMA, {"id": [1, 2, None], "name": ["a", None, "c"]})
CONFLUENT = get_format("avro-confluent")
DEBEZIUM = get_format("debezium-avro-confluent")


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running() as opened:
        yield opened


def options(registry: Registry, **more: str) -> dict[str, str]:
    return {"url": registry.url, "subject": "t-value", **more}


def written(number: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    out.seek(5)
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def test_rows_are_read_as_they_were_written(registry: Registry) -> None:
    """The schema is registered once, and fetched once."""
    encoder = CONFLUENT.encoder(SCHEMA, options(registry))
    decoder = CONFLUENT.decoder(SCHEMA, options(registry), ("name",))
    for _ in range(3):
        records = encoder.encode(ROWS)
        assert all(r.startswith(b"\0\0\0\0\x01") for r in records.to_pylist())
        read = decoder.decode(records)
        assert [c.to_pylist() for c in read.columns] == [["a", None, "c"]]
    assert registry.asked == ["/subjects/t-value/versions", "/schemas/ids/1"]


def _record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}


def test_records_of_several_writers_are_rows_in_their_order(registry: Registry) -> None:
    old = _record({"name": "id", "type": "int"})
    new = _record(
        {"name": "name", "type": "string"},
        {"name": "x", "type": "double"},
        {"name": "id", "type": "long"},
    )
    other = _record({"name": "id", "type": "string"})
    for schema in (old, new, other):
        registry.add("t-value", json.dumps(schema))
    records = [
        written(2, new, {"name": "b", "x": 1.5, "id": 2}),
        b"\1\0\0\0\1\2",
        written(1, old, {"id": 1}),
        written(3, other, {"id": "x"}),
        b"\0\0\0",
        written(9, old, {"id": 1}),
        written(2, new, {"name": "d", "x": 1.5, "id": 4}) + b"more",
        written(2, new, {"name": "c", "x": 1.5, "id": 3}),
    ]  # fmt: skip
    read = CONFLUENT.decoder(SCHEMA, options(registry)).decode(pa.array(records, pa.binary()))
    assert [c.to_pylist() for c in read.columns] == [[2, 1, 3], ["b", None, "c"]]
    assert read.rows is not None
    assert read.rows.tolist() == [0, 2, 7]
    head = "it does not begin with a zero and the id of a schema"
    assert [(b.row, b.reason) for b in read.bad] == [
        (1, head),
        (3, "schema 3: id: it is written as string, which is no BIGINT"),
        (4, head),
        (5, "the schema registry has no Avro schema 9"),
        (6, "4 bytes are left behind its last field"),
    ]


def test_a_schema_that_is_given_is_written(registry: Registry) -> None:
    given = _record(
        {"name": "name", "type": ["string", "null"]}, {"name": "id", "type": ["null", "long"]}
    )
    records = CONFLUENT.encoder(SCHEMA, options(registry, schema=json.dumps(given))).encode(ROWS)
    assert registry.schemas == [json.dumps(given)]
    values = [
        fastavro.schemaless_reader(io.BytesIO(r[5:]), given, None) for r in records.to_pylist()
    ]
    assert values == [{"name": n, "id": i} for i, n in [(1, "a"), (2, None), (None, "c")]]
    with pytest.raises(OptionError, match="does not fit the table"):
        CONFLUENT.encoder(SCHEMA, options(registry, schema=json.dumps(_record())))


def test_a_schema_that_is_not_compatible_is_refused(registry: Registry) -> None:
    registry.add("t-value", json.dumps(_record({"name": "other", "type": "int"})))
    schema = Schema.of(id=INT.with_nullable(False))
    encoder = CONFLUENT.encoder(schema, options(registry))
    with pytest.raises(ExecutionError, match="not compatible"):
        encoder.encode(from_pydict(schema, {"id": [1]}))


def test_a_schema_that_may_not_be_registered_must_be_there(registry: Registry) -> None:
    given = options(registry, **{"properties.auto.register.schemas": "false"})
    with pytest.raises(ExecutionError, match="subject 't-value' has not the schema"):
        CONFLUENT.encoder(SCHEMA, given).encode(ROWS)
    assert registry.schemas == []
    CONFLUENT.encoder(SCHEMA, options(registry)).encode(ROWS)
    assert CONFLUENT.encoder(SCHEMA, given).encode(ROWS)[0].as_py().startswith(b"\0\0\0\0\x01")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"basic-auth.user-info": "me:pass"}, "Basic " + base64.b64encode(b"me:pass").decode()),
        ({"properties.basic.auth.user.info": "me:pass"}, "Basic bWU6cGFzcw=="),
        ({"bearer-auth.token": "tok"}, "Bearer tok"),
    ],
)
def test_the_registry_knows_who_asks(
    registry: Registry, given: dict[str, str], wanted: str
) -> None:
    registry.authorization = wanted
    assert len(CONFLUENT.encoder(SCHEMA, options(registry, **given)).encode(ROWS)) == 3
    with pytest.raises(ExecutionError, match="status 401"):
        CONFLUENT.encoder(SCHEMA, options(registry)).encode(ROWS)


@pytest.mark.parametrize(
    "given",
    [{"url": "registry:8081"}, {"url": "file:///etc/passwd"}, {"url": ""}, {"url": "http://a:1", "properties.x": "1"},
     {"url": "http://user:hushhush@a:1"}],
)  # fmt: skip
def test_options_that_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(PlanError):
        CONFLUENT.decoder(SCHEMA, given)


def test_a_registry_that_does_not_answer_is_no_fault_of_records(registry: Registry) -> None:
    records = CONFLUENT.encoder(SCHEMA, options(registry)).encode(ROWS)
    registry.closed = True
    of = table({"connector": "x", "format": "avro-confluent", "avro-confluent.url": registry.url})
    decoder = decoder_for(of)
    with pytest.raises(OutOfReach, match="does not answer"):
        decoder.decode(records)
    registry.closed = False
    assert decoder.decode(records).num_rows == 3


def test_a_question_that_takes_long_holds_up_no_other(registry: Registry) -> None:
    known = [
        registry.add(f"s{n}", json.dumps(_record({"name": f"f{n}", "type": "long"})))
        for n in range(3)
    ]
    client = SchemaRegistry(Access((registry.url,)))
    assert client.schema(known[0]) is not None
    registry.slow.add(f"/schemas/ids/{known[1]}")
    with ThreadPoolExecutor(2) as pool:
        first, again = (pool.submit(client.schema, known[1]) for _ in range(2))
        eventually(lambda: f"/schemas/ids/{known[1]}" in registry.asked)
        assert client.schema(known[0]) is not None
        assert client.schema(known[2]) is not None
        assert client.id_of("s9", json.dumps(_record()), register=True) > 0
        assert not first.done()
        registry.freed.set()
        assert first.result() == again.result() == registry.schemas[known[1] - 1]
    assert registry.asked.count(f"/schemas/ids/{known[1]}") == 1


def test_a_question_has_a_deadline(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an answer that comes byte by byte, too, and for all attempts together."""
    monkeypatch.setattr(schema_registry, "_PATIENCE_S", 1.0)
    number = registry.add("s", json.dumps(_record()))
    client = SchemaRegistry(Access((registry.url, registry.url)))
    registry.pause_s = 0.2
    began = time.monotonic()
    with pytest.raises(OutOfReach, match="does not answer"):
        client.schema(number)
    assert time.monotonic() - began < 2.5
    registry.pause_s = 0.0
    assert client.schema(number) is not None


def test_schemas_that_are_missing_are_not_remembered_without_end(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "_MOST_MISSING", 20)
    now = 0.0
    client = SchemaRegistry(Access((registry.url,)), clock=lambda: now)
    for number in range(100, 150):
        assert client.schema(number) is None
        assert client.schema(number) is None
    assert len(registry.asked) == 50
    assert list(client._missing) == list(range(130, 150))
    now = 31.0
    assert client.schema(149) is None
    assert len(registry.asked) == 51
    assert list(client._missing) == [149]


def test_certificates(tmp_path: Path) -> None:
    """A registry whose certificate nobody we trust has signed is not asked."""
    trustme = pytest.importorskip("cryptography", reason="cryptography makes the certificates")
    assert trustme
    certificate, key = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with running(context) as registry:
        trusting = options(registry, **{"ssl.truststore.location": str(certificate)})
        assert len(CONFLUENT.encoder(SCHEMA, trusting).encode(ROWS)) == 3
        with pytest.raises(OutOfReach, match="does not answer"):
            CONFLUENT.encoder(SCHEMA, options(registry)).encode(ROWS)
        wrong = options(registry, **{"ssl.truststore.location": str(key)})
        with pytest.raises(OptionError, match="certificates"):
            CONFLUENT.encoder(SCHEMA, wrong).encode(ROWS)


def _certificate(folder: Path) -> tuple[Path, Path]:
    import datetime as dt
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "registry")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files = folder / "registry.crt", folder / "registry.key"
    files[0].write_bytes(made.public_bytes(pem))
    files[1].write_bytes(key.private_bytes(pem, *plain))
    return files


def test_a_topic_is_read_with_a_secret(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schemas are fetched where records are read: who decodes them has no secret, and never
    waits."""
    monkeypatch.setenv("SQLENGINE_SECRET_REGISTRY", "tok")
    registry.authorization = "Bearer tok"
    broker = EmbeddedBroker(tmp_path)
    broker.create_topic("x")
    given = {f"avro-confluent.{k}": v for k, v in options(registry).items()}
    of = table({
        "connector": "topic", "topic": "x", "format": "avro-confluent", "scan.startup.mode": "earliest-offset",
        "avro-confluent.bearer-auth.token": "${secret:REGISTRY}", **given,
    })  # fmt: skip
    validate(of)
    around = replace(environment(broker), secrets=Secrets())
    sink = open_sink(of, around)
    sink.write(ROWS)
    sink.commit(1)
    sink.close()
    source = open_source(of, around)
    (shard,) = source.shards()
    chunk = source.read(shard, 0, max_rows=10)
    assert chunk is not None
    registry.authorization = "nobody"
    read = decoder_for(of).decode(chunk.records)
    assert [c.to_pylist() for c in read.columns] == [[1, 2, None], ["a", None, "c"]]
    source.close()
    broker.close()


def test_who_only_decodes_has_the_secret_too(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tasks of Spark do, with rows that the driver has read. A refusal is no fault of records."""
    records = CONFLUENT.encoder(SCHEMA, options(registry)).encode(ROWS)
    monkeypatch.setenv("SQLENGINE_SECRET_REGISTRY", "tok")
    registry.authorization = "Bearer tok"
    of = table({
        "connector": "topic", "topic": "x", "format": "avro-confluent", "avro-confluent.url": registry.url,
        "avro-confluent.bearer-auth.token": "${secret:REGISTRY}",
    })  # fmt: skip
    with pytest.raises(OutOfReach, match="status 401"):
        decoder_for(of).decode(records)
    connect_formats(of, replace(environment(), secrets=Secrets()))
    assert decoder_for(of).decode(records).num_rows == 3
    # A registry may say what it was told.
    registry.authorization, registry.says = "Bearer other", "nobody is 'tok-of-many'"
    monkeypatch.setenv("SQLENGINE_SECRET_REGISTRY", "tok-of-many")
    connect_formats(of, replace(environment(), secrets=Secrets()))
    with pytest.raises(OutOfReach, match="status 401") as error:
        decoder_for(of).decode(records)
    assert error.value.detail == "nobody is '******'"


# ---- changes -------------------------------------------------------------------------------------


def test_changes_are_read_as_they_were_written(registry: Registry) -> None:
    kinds = np.array([RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.DELETE], np.int8)
    batch = replace(ROWS, kinds=kinds)
    records = DEBEZIUM.encoder(SCHEMA, options(registry)).encode(batch)
    read = DEBEZIUM.decoder(SCHEMA, options(registry)).decode(records)
    assert [c.to_pylist() for c in read.columns] == [[1, 2, None], ["a", None, "c"]]
    assert read.kinds is not None
    assert read.kinds.tolist() == [RowKind.INSERT, RowKind.DELETE, RowKind.DELETE]


def test_changes_of_debezium_are_rows(registry: Registry) -> None:
    image = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
    }
    envelope = _record(
        {"name": "before", "type": ["null", image]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": {"type": "record", "name": "S", "fields": [{"name": "lsn", "type": "long"}]}},
        {"name": "op", "type": "string"},
    )  # fmt: skip
    registry.add("t-value", json.dumps(envelope))

    def change(op: str, before: int | None, after: int | None) -> bytes:
        images = [None if v is None else {"id": v, "name": f"n{v}"} for v in (before, after)]
        value = {"before": images[0], "after": images[1], "source": {"lsn": 1}, "op": op}
        return written(1, envelope, value)

    records = [
        change("r", None, 1), change("c", None, 2), change("u", 2, 3), change("d", 1, None), b"",
        change("u", None, 4), change("t", None, None),
    ]  # fmt: skip
    decoder = DEBEZIUM.decoder(SCHEMA, {"url": registry.url}, ("id",))
    read = decoder.decode(pa.array(records, pa.binary()))
    assert read.columns[0].to_pylist() == [1, 2, 2, 3, 1]
    assert read.rows is not None
    assert read.kinds is not None
    assert read.rows.tolist() == [0, 1, 2, 2, 3]
    assert [RowKind(k).short for k in read.kinds.tolist()] == ["+I", "+I", "-U", "+U", "-D"]
    hint = "a table of PostgreSQL needs REPLICA IDENTITY FULL for it"
    assert [(b.row, b.reason) for b in read.bad] == [
        (5, f"field 'before' of a change with op 'u' is null; {hint}"),
        (6, "unknown op 't'"),
    ]


# ---- a script ------------------------------------------------------------------------------------


def test_a_script_writes_and_reads_files(tmp_path: Path) -> None:
    found = Collected("")
    with open_runner(tmp_path / "data") as runner:
        Session(runner, found).run(f"""
            CREATE TABLE t (id BIGINT, name STRING, tags ARRAY<STRING>) WITH (
              'connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'avro', 'avro.codec' = 'deflate');
            INSERT INTO t VALUES (1, 'a', ARRAY['x', 'y']), (2, CAST(NULL AS STRING), ARRAY['z']);
            SELECT id, name, tags[1] FROM t WHERE id > 0;
        """)
    rows = [event["row"] for event in found.events if event["kind"] == "row"]
    assert sorted(rows) == [[1, "a", "x"], [2, None, "z"]], found.events


def test_keys_and_values_have_subjects_of_their_own(registry: Registry) -> None:
    """Both are those of the topic; schemas of both are fetched where records are read."""
    given = {
        "connector": "kafka", "topic": "x", "key.format": "avro-confluent", "value.format": "avro-confluent",
        "key.avro-confluent.url": registry.url, "value.avro-confluent.url": registry.url,
        "key.fields": "id", "value.fields-include": "EXCEPT_KEY",
    }  # fmt: skip
    of = table(given)
    part = key_part(of)
    assert part is not None
    keys = key_encoder_of(of, part).encode(
        ROWS.with_columns(SCHEMA.select(("id",)), [ROWS.columns[0]])
    )
    values = encoder_for(of).encode(ROWS.with_columns(SCHEMA.select(("name",)), [ROWS.columns[1]]))
    assert registry.subjects == {"x-key": [1], "x-value": [2]}
    for prepare, records in ((preparation_of(of), values), (key_preparation_of(of), keys)):
        assert prepare is not None
        prepare(records)
    assert registry.asked[2:] == ["/schemas/ids/2", "/schemas/ids/1"]
    decoder = decoder_for(of)
    assert isinstance(decoder, KeyedDecoder)
    read = decoder.decode_keyed(keys, values, np.zeros(3, np.bool_))
    assert [c.to_pylist() for c in read.columns] == [[1, 2, None], ["a", None, "c"]]
