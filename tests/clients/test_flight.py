"""Arrow Flight SQL, over pyarrow alone."""

from __future__ import annotations

import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import flight

from parser.errors import ServiceError
from parser.limits import using
from sqlengine.api.flight.connections import connections_of
from sqlengine.api.flight.messages import read_any, write_any
from sqlengine.api.flight.wire import BadMessage, Message, field
from sqlengine.config import QueryLimits
from sqlengine.service import Service
from tests.access.conftest import TOKENS, access_text
from tests.clients.flight_client import Client, count
from tests.hostile.certificates import MISSING, Authority
from tests.service.harness import running
from tests.support import eventually

TICKS = "CREATE TEMPORARY TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '{}')"
STREAMING = "SET 'execution.runtime-mode' = 'streaming'"


def port_of(service: Service) -> int:
    assert service.flight is not None
    return int(service.flight.port)


@pytest.fixture
def client(server: Service) -> Iterator[Client]:
    with Client(port_of(server)) as client:
        yield client


def running_queries(server: Service) -> int:
    return len(server._queries.running())


def read_on(reader: Any) -> None:
    while True:
        reader.read_chunk()


def topic_table(name: str, columns: str = "a BIGINT, b STRING") -> str:
    return f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'topic', 'topic' = '{name}', 'format' = 'json')"


# ---- statements ------------------------------------------------------------------------------------


def test_queries(client: Client) -> None:
    info = client.begin("SELECT id, name, price FROM items WHERE id < 2")
    assert [(f.name, str(f.type)) for f in info.schema] == [
        ("id", "int64"),
        ("name", "string"),
        ("price", "decimal128(10, 2)"),
    ]
    reader = client.reader(info)
    assert reader.schema == info.schema
    assert [row["name"] for row in reader.read_all().to_pylist()] == ["n0", "n1"]
    assert client.query("SELECT COUNT(*) AS n FROM items") == [{"n": 5}]
    assert client.query("SELECT id FROM items WHERE FALSE") == []
    assert {"table name": "items"} in client.query("SHOW TABLES")
    schema = client.client.get_schema(
        flight.FlightDescriptor.for_command(
            write_any("CommandStatementQuery", field(1, "SELECT 1 AS a"))
        )
    )
    assert schema.schema.names == ["a"]


def test_updates(client: Client) -> None:
    assert client.update(topic_table("f_updates")) == 0
    assert client.update("INSERT INTO f_updates VALUES (1, NULL), (2, 'x')") == 2
    assert client.query("SELECT COUNT(*) AS n FROM f_updates") == [{"n": 2}]
    assert client.query("CREATE VIEW f_view AS SELECT a FROM f_updates") == [{"result": "OK"}]
    assert client.update("DROP VIEW f_view") == 0
    assert client.update("INSERT INTO f_updates SELECT id, name FROM items") == 0
    (job,) = [
        j["job name"]
        for j in client.query("SHOW JOBS")
        if j["job name"].startswith("insert_f_updates")
    ]
    client.update(f"STOP JOB '{job}'")


def test_prepared_statements(client: Client) -> None:
    client.update(topic_table("f_prepared"))
    insert = client.prepare("INSERT INTO f_prepared VALUES (?, ?)")
    handle, rows, parameters = insert.data(1), insert.data(2), insert.data(3)
    assert rows == b""
    assert pa.ipc.read_schema(pa.py_buffer(parameters or b"")).names == [
        "parameter_1",
        "parameter_2",
    ]
    given = pa.table({"0": [1, 2, 3], "1": ["it's", "\0'; --", None]})
    assert count(client.put("CommandPreparedStatementUpdate", field(1, handle or b""), given)) == 3
    query = client.prepare("SELECT b FROM f_prepared WHERE a = ?")
    command = field(1, query.data(1) or b"")
    assert pa.ipc.read_schema(pa.py_buffer(query.data(2) or b"")).names == ["b"]
    for a, b in ((1, "it's"), (2, "\0'; --")):
        client.put("CommandPreparedStatementQuery", command, pa.table({"0": [a]}))
        assert client.asked("CommandPreparedStatementQuery", command) == [{"b": b}]
    asked = "SELECT a FROM f_prepared WHERE b = ? AND a <> ? AND CURRENT_DATE > ? LIMIT ?"
    parameters = client.prepare(asked).data(3)
    kinds = [pa.string(), pa.int64(), pa.string(), pa.int64()]
    assert pa.ipc.read_schema(pa.py_buffer(parameters or b"")).types == kinds
    with pytest.raises(flight.FlightServerError, match="nope"):
        client.prepare("SELECT nope FROM f_prepared")
    late = client.prepare("SELECT b FROM f_prepared WHERE b LIKE ? LIMIT ?")
    command = field(1, late.data(1) or b"")
    client.put("CommandPreparedStatementQuery", command, pa.table({"0": ["it%"], "1": [1]}))
    assert client.asked("CommandPreparedStatementQuery", command) == [{"b": "it's"}]
    plain = client.prepare("SELECT 1 AS a")
    assert client.asked("CommandPreparedStatementQuery", field(1, plain.data(1) or b"")) == [
        {"a": 1}
    ]
    client.act("ClosePreparedStatement", write_any("ActionClosePreparedStatementRequest", command))
    with pytest.raises(flight.FlightServerError, match="does not exist"):
        client.asked("CommandPreparedStatementQuery", command)


def test_parameters_that_do_not_fit(client: Client) -> None:
    query = client.prepare("SELECT ? AS a")
    command = field(1, query.data(1) or b"")
    with pytest.raises(flight.FlightServerError, match="1 parameters, and 0 rows"):
        client.asked("CommandPreparedStatementQuery", command)
    with pytest.raises(flight.FlightServerError, match="1000 rows of parameters at most"):
        client.put("CommandPreparedStatementQuery", command, pa.table({"0": range(2000)}))


# ---- rows in ---------------------------------------------------------------------------------------


def ingest(table: str, *, exists: int = 2, missing: int = 2, temporary: int = 0) -> bytes:
    options = field(1, missing) + field(2, exists)
    return field(1, options) + field(2, table) + field(5, temporary)


def test_ingest(client: Client) -> None:
    rows = pa.table(
        {
            "a": pa.array(range(100_000), pa.int64()),
            "b": pa.array(["x", None] * 50_000).dictionary_encode(),
        }
    )
    with pytest.raises(flight.FlightServerError, match="'f_ingest' does not exist"):
        client.put("CommandStatementIngest", ingest("f_ingest"), rows)
    assert (
        count(client.put("CommandStatementIngest", ingest("f_ingest", missing=1), rows)) == 100_000
    )
    assert count(client.put("CommandStatementIngest", ingest("f_ingest"), rows.slice(0, 5))) == 5
    assert client.query("SELECT COUNT(*) AS n, COUNT(b) AS b, MAX(a) AS a FROM f_ingest") == [
        {"n": 100_005, "b": 50_003, "a": 99_999}
    ]
    few = client.put("CommandStatementIngest", ingest("f_ingest", exists=3, missing=1), rows[:3])
    assert count(few) == 3
    assert client.query("SELECT COUNT(*) AS n FROM f_ingest") == [{"n": 3}]
    for command in (
        ingest("f_ingest", exists=1),
        ingest("keyed", exists=3),
        ingest("f_x", temporary=1),
    ):
        with pytest.raises(flight.FlightServerError):
            client.put("CommandStatementIngest", command, rows)
    with pytest.raises(flight.FlightServerError, match="'c'"):
        client.put("CommandStatementIngest", ingest("f_ingest"), pa.table({"c": [1]}))


def test_a_table_by_its_path(client: Client) -> None:
    client.update(topic_table("f_path"))
    rows = pa.table({"b": ["x"], "a": pa.array([1], pa.int32())})
    writer, _ = client.client.do_put(flight.FlightDescriptor.for_path("f_path"), rows.schema)
    with writer:
        writer.write_table(rows)
    assert client.query("SELECT a, b FROM f_path") == [{"a": 1, "b": "x"}]


def test_few_values_that_are_many_are_refused(client: Client) -> None:
    """A few bytes of a dictionary that would be five gigabytes, also within others, and nothing two
    billion times."""
    client.update(topic_table("f_few", "a ARRAY<STRING>"))
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 5000, pa.int8()), ["x" * (1 << 20)])
    few = {
        "f_few": pa.ListArray.from_arrays(pa.array([0, 5000], pa.int32()), texts),
        "items": texts,
    }
    for name, column in few.items():
        rows = pa.table({"a" if name == "f_few" else "name": column})
        with pytest.raises(flight.FlightServerError, match="are the most"):
            client.put("CommandStatementIngest", ingest(name), rows)
    handle = field(1, client.prepare("SELECT ? AS a").data(1) or b"")
    nothing = pa.table({"a": pa.nulls(2_000_000_000)})
    with pytest.raises(flight.FlightServerError, match="are the most"):
        client.put("CommandPreparedStatementQuery", handle, nothing)


def test_a_batch_of_many_rows_is_written(client: Client) -> None:
    client.update(topic_table("f_many"))
    rows = pa.table(
        {"a": pa.array(range(200_000)), "b": pa.array(["x"] * 200_000).dictionary_encode()}
    )
    assert count(client.put("CommandStatementIngest", ingest("f_many"), rows)) == 200_000
    counted = "SELECT COUNT(*) AS n, SUM(a) AS s, MAX(b) AS b FROM f_many"
    assert client.query(counted) == [{"n": 200_000, "s": sum(range(200_000)), "b": "x"}]


# ---- the catalog -----------------------------------------------------------------------------------


def test_metadata(client: Client) -> None:
    assert client.asked("CommandGetCatalogs") == [{"catalog_name": "default_catalog"}]
    database = {"catalog_name": "default_catalog", "db_schema_name": "default_database"}
    assert client.asked("CommandGetDbSchemas", field(2, "default%")) == [database]
    assert client.asked("CommandGetDbSchemas", field(2, "x%")) == []
    # However many % there are, it takes no time.
    assert client.asked("CommandGetDbSchemas", field(2, "%" * 40 + "x")) == []
    assert client.asked("CommandGetTableTypes") == [{"table_type": "TABLE"}, {"table_type": "VIEW"}]
    names = [
        row["table_name"]
        for row in client.asked("CommandGetTables", field(3, "_e%") + field(4, "TABLE"))
    ]
    assert names == ["keyed"]
    (cheap,) = client.asked("CommandGetTables", field(4, "VIEW") + field(3, "cheap") + field(5, 1))
    assert pa.ipc.read_schema(pa.py_buffer(cheap["table_schema"])).names == ["id", "name"]
    keys = client.asked("CommandGetPrimaryKeys", field(3, "keyed"))
    assert [(k["column_name"], k["key_sequence"]) for k in keys] == [("region", 1), ("id", 2)]
    for name in ("Exported", "Imported"):
        assert client.asked(f"CommandGet{name}Keys", field(3, "keyed")) == []
    assert client.asked("CommandGetCrossReference") == []


def test_information(client: Client) -> None:
    known = {row["info_name"]: row["value"] for row in client.asked("CommandGetSqlInfo")}
    assert (known[0], known[3], known[10], known[504]) == ("sqlengine", False, True, "`")
    assert len(client.asked("CommandGetSqlInfo", field(1, b"\x00\x01"))) == 2
    assert len(client.asked("CommandGetSqlInfo", field(1, 0) + field(1, 508))) == 2
    types = client.asked("CommandGetXdbcTypeInfo")
    assert [t["data_type"] for t in types] == sorted(t["data_type"] for t in types)
    assert [t["type_name"] for t in client.asked("CommandGetXdbcTypeInfo", field(1, -5))] == [
        "BIGINT"
    ]


# ---- sessions --------------------------------------------------------------------------------------


def option(name: str, value: bytes) -> bytes:
    return field(1, field(1, name) + field(2, value))


def test_a_connection_has_a_session(client: Client, server: Service) -> None:
    client.update("CREATE TEMPORARY VIEW mine AS SELECT 1 AS a")
    assert client.query("SELECT a FROM mine") == [{"a": 1}]
    with (
        Client(port_of(server), generic_options=[("grpc.use_local_subchannel_pool", 1)]) as other,
        pytest.raises(flight.FlightServerError, match="mine"),
    ):
        other.query("SELECT a FROM mine")
    client.act("CloseSession", b"")
    with pytest.raises(flight.FlightServerError, match="mine"):
        client.query("SELECT a FROM mine")


def test_options_of_a_session(client: Client) -> None:
    number = field(3, b"")[:1].replace(b"\x1a", b"\x19") + struct.pack("<q", 5)
    body = (
        option("table.local-time-zone", field(1, "Asia/Tokyo"))
        + option("no.such", number)
        + option("schema", field(1, "default_database"))
    )
    (answer,) = client.act("SetSessionOptions", body)
    assert [part.text(1) for part in Message(answer).parts(1)] == ["no.such"]
    (answer,) = client.act("GetSessionOptions", b"")
    found = {p.text(1): Message(p.data(2) or b"").text(1) for p in Message(answer).parts(1)}
    assert (found["table.local-time-zone"], found["schema"]) == ("Asia/Tokyo", "default_database")
    assert client.act("SetSessionOptions", option("table.local-time-zone", b"")) == [b""]


# ---- ends and walls --------------------------------------------------------------------------------


def test_a_query_without_end_streams_until_the_client_goes(client: Client, server: Service) -> None:
    client.update(STREAMING)
    client.update(TICKS.format(200))
    reader = client.reader(client.begin("SELECT n FROM ticks"))
    assert reader.read_chunk().data.num_rows
    assert reader.read_chunk().data.num_rows
    assert running_queries(server) == 1
    reader.cancel()
    eventually(lambda: running_queries(server) == 0)
    info = client.begin("SELECT n FROM ticks")
    reader = client.reader(info)
    reader.read_chunk()
    request = field(1, info.serialize())
    assert client.act("CancelFlightInfo", request) == [field(1, 1)]
    with pytest.raises((StopIteration, flight.FlightError)):
        read_on(reader)
    eventually(lambda: running_queries(server) == 0)


def test_a_client_that_vanishes(server: Service) -> None:
    with Client(port_of(server), generic_options=[("grpc.use_local_subchannel_pool", 1)]) as client:
        client.update(STREAMING)
        client.update(TICKS.format(1))  # there is nothing to write that would fail
        reader = client.reader(client.begin("SELECT n FROM ticks"))
        reader.read_chunk()
        del reader
    eventually(lambda: running_queries(server) == 0)


def test_a_client_that_pauses_holds_the_query(client: Client, server: Service) -> None:
    client.update(STREAMING)
    client.update(TICKS.format(1_000_000))
    reader = client.reader(client.begin("SELECT n, CAST(n AS STRING) AS t FROM ticks"))
    reader.read_chunk()

    def at_rest() -> bool:
        (query,) = server._queries.running()
        before = query.rows_read
        time.sleep(0.3)
        return query.rows_read == before

    eventually(at_rest)
    assert client.query("SELECT 1 AS a") == [{"a": 1}]
    reader.read_chunk()
    reader.cancel()
    eventually(lambda: running_queries(server) == 0)


def test_errors_have_no_trace(client: Client) -> None:
    for sql, told in (
        ("SELEC 1", "did you mean SELECT"),
        ("SELECT nope FROM items", "1:8: unknown column 'nope'"),
        ("SELECT ?", "'?'"),
    ):
        with pytest.raises(flight.FlightServerError, match="Failed") as error:
            client.query(sql)
        assert told in str(error.value)
        assert "Traceback" not in str(error.value)
    with pytest.raises(flight.FlightServerError, match="no transactions"):
        client.asked("CommandStatementQuery", field(1, "SELECT 1") + field(2, "t"))
    with pytest.raises(flight.FlightServerError, match="does not exist"):
        client.client.do_get(
            flight.Ticket(write_any("TicketStatementQuery", field(1, "nope")))
        ).read_all()


def test_a_fault_of_ours_shows_no_trace(
    client: Client,
    server: Service,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("secret inside")

    assert server.flight is not None
    monkeypatch.setattr(server.flight._statements, "begin", broken)
    with pytest.raises(flight.FlightInternalError, match="the server's log") as error:
        client.query("SELECT 1")
    assert "secret" not in str(error.value)
    assert "secret inside" in caplog.text


def exchanged(client: Client, descriptor: Any) -> None:
    writer, reader = client.client.do_exchange(descriptor, client.options)
    with writer:
        reader.read_chunk()


def put(client: Client, descriptor: Any) -> None:
    writer, reader = client.client.do_put(descriptor, pa.schema([("a", pa.int64())]))
    with writer:
        writer.done_writing()
        reader.read()


def test_no_method_shows_a_path_of_the_server(
    client: Client, server: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For what is refused, and for a fault of ours."""
    assert list(client.client.list_flights(options=client.options)) == []

    def refusals(sql: str) -> Iterator[str]:
        query = flight.FlightDescriptor.for_command(
            write_any("CommandStatementQuery", field(1, sql))
        )
        update = flight.FlightDescriptor.for_command(
            write_any("CommandStatementUpdate", field(1, sql))
        )
        ingested = flight.FlightDescriptor.for_command(
            write_any("CommandStatementIngest", ingest("nope"))
        )
        ticket = flight.Ticket(write_any("TicketStatementQuery", field(1, "nope")))
        prepare = write_any("ActionCreatePreparedStatementRequest", field(1, sql))
        calls: list[Callable[[], Any]] = [
            lambda: client.client.get_flight_info(query, client.options),
            lambda: client.client.get_schema(query, client.options),
            lambda: client.client.do_get(ticket, client.options).read_all(),
            lambda: put(client, update),
            lambda: put(client, ingested),
            lambda: put(client, flight.FlightDescriptor.for_path("nope")),
            lambda: exchanged(client, query),
            lambda: client.act("CreatePreparedStatement", prepare),
            lambda: client.act("CancelQuery", write_any("ActionCancelQueryRequest", b"")),
            lambda: client.act("NobodyKnows", b""),
        ]
        for call in calls:
            with pytest.raises((pa.ArrowException, OSError)) as error:
                call()
            yield str(error.value)

    told = list(refusals("SELECT nope FROM items"))
    assert all("nope" in text for text in (told[0], told[1], told[3], told[7]))

    def broken(*arguments: object, **options: object) -> None:
        raise RuntimeError("secret inside")

    assert server.flight is not None
    for part in ("begin", "stream", "cancel", "ingest"):
        monkeypatch.setattr(server.flight._statements, part, broken)
    told += refusals("SELECT 1")
    monkeypatch.setattr("sqlengine.api.flight.callers._session", broken)
    told += refusals("SELECT 1")
    for text in told:
        assert not re.search(r"Traceback|\.py\b|secret|/work|/home|/tmp|site-packages", text), text


JUNK = [
    b"",
    b"\xff" * 20,
    b"\x0a\xff\x01",
    b"\x0a\x03abc",
    write_any("CommandNobodyKnows", b""),
    write_any("CommandStatementQuery", b"\x08\x01"),
    write_any("TicketStatementQuery", b"\x0b"),
]


@pytest.mark.parametrize("junk", JUNK)
def test_junk(client: Client, junk: bytes) -> None:
    descriptor = flight.FlightDescriptor.for_command(junk)
    calls: list[Any] = [
        lambda: client.client.get_flight_info(descriptor),
        lambda: client.client.do_get(flight.Ticket(junk)).read_all(),
        lambda: client.act("CreatePreparedStatement", junk),
        lambda: client.act("CancelFlightInfo", junk),
        lambda: client.act("NobodyKnows", junk),
    ]
    for call in calls:
        with pytest.raises(flight.FlightServerError) as error:
            call()
        assert "Traceback" not in str(error.value)
    with pytest.raises((pa.ArrowException, UnicodeDecodeError)):
        client.client.get_schema(descriptor)
    assert client.query("SELECT 1 AS a") == [{"a": 1}]


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        message = Message(data)
        for number in range(1, 6):
            message.has(number)
            message.numbers(number)
            message.texts(number)
        read_any(data)
    except BadMessage:
        pass


@given(st.integers(-(2**63), 2**63 - 1), st.text(), st.binary())
def test_messages_come_back(number: int, text: str, data: bytes) -> None:
    message = Message(field(1, number) + field(2, text) + field(300, data))
    assert message.number(1) in (number, number + (1 << 64))
    assert (message.text(2), message.data(300)) == (text, data)


# ---- who may ---------------------------------------------------------------------------------------


def test_the_token_of_a_server(tmp_path: Path) -> None:
    with running(tmp_path / "data", token="s3cret-token", flight_port=0) as (service, _):
        port = port_of(service)
        for wrong in (None, "wrong"):
            with Client(port, wrong) as client, pytest.raises(flight.FlightUnauthenticatedError):
                client.query("SELECT 1")
        with Client(port, "s3cret-token") as client:
            assert client.query("SELECT 1 AS a") == [{"a": 1}]
        with Client(port) as client:
            header = client.client.authenticate_basic_token("anybody", "s3cret-token")
            client.options = flight.FlightCallOptions(headers=[header])
            assert client.query("SELECT 1 AS a") == [{"a": 1}]
            with pytest.raises(flight.FlightUnauthenticatedError):
                client.client.authenticate_basic_token("anybody", "wrong")


def test_principals(tmp_path: Path) -> None:
    (tmp_path / "access.toml").write_text(access_text())
    with running(tmp_path / "data", access=tmp_path / "access.toml", flight_port=0) as (service, _):
        port = port_of(service)
        with (
            Client(port, TOKENS["sender"]) as client,
            pytest.raises(flight.FlightUnauthorizedError),
        ):
            client.query("SELECT 1")
        with Client(port, TOKENS["root"]) as client:
            client.update(topic_table("secret"))
            client.update("INSERT INTO secret (a) VALUES (1)")
            begun = client.begin("SELECT a FROM secret")
        with Client(port, TOKENS["reader"]) as client:
            assert client.query("SELECT 1 AS a") == [{"a": 1}]
            for call in (
                lambda: client.query("INSERT INTO secret (a) VALUES (1)"),
                lambda: client.update(topic_table("mine")),
                lambda: client.put(
                    "CommandStatementIngest", ingest("secret"), pa.table({"a": [1]})
                ),
            ):
                with pytest.raises(flight.FlightUnauthorizedError):
                    call()
            with pytest.raises(flight.FlightServerError, match="does not exist"):
                client.reader(begun).read_all()


def test_a_port_that_is_taken(server: Service, tmp_path: Path) -> None:
    with (
        pytest.raises(ServiceError, match="cannot listen"),
        running(tmp_path / "data", flight_port=port_of(server)),
    ):
        pass


def test_the_end_of_the_server_waits_for_nobody(tmp_path: Path) -> None:
    with running(tmp_path / "data", flight_port=0, queries=QueryLimits()) as (service, _):
        client = Client(port_of(service))
        client.update(STREAMING)
        client.update(TICKS.format(1_000_000))
        reader = client.reader(client.begin("SELECT n, CAST(n AS STRING) AS t FROM ticks"))
        reader.read_chunk()
        time.sleep(0.3)
        began = time.monotonic()
        service.stop()
        assert time.monotonic() - began < 15
        threading.Thread(target=client.client.close, daemon=True).start()


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_tls(tmp_path: Path) -> None:
    """The certificate of the port; with authorities of clients, these show one."""
    authority = Authority(tmp_path / "ca")
    own, mine = authority.sign("server"), authority.sign("me")
    files = {
        "tls_certificate": own.certificate,
        "tls_key": own.key,
        "tls_client_ca": authority.own.certificate,
    }
    roots = authority.own.certificate.read_bytes()
    pair: dict[str, Any] = {
        "cert_chain": mine.certificate.read_bytes(),
        "private_key": mine.key.read_bytes(),
    }
    with running(tmp_path / "data", flight_port=0, **files) as (service, _):
        with Client(port_of(service), scheme="grpc+tls", tls_root_certs=roots, **pair) as client:
            assert client.query("SELECT 1 AS a") == [{"a": 1}]
        ways: list[tuple[str, dict[str, Any]]] = [
            ("grpc+tls", {"tls_root_certs": roots}),
            ("grpc+tls", pair),
            ("grpc", {}),
        ]
        for scheme, options in ways:
            with Client(port_of(service), scheme=scheme, **options) as client:
                client.options = flight.FlightCallOptions(timeout=5)
                with pytest.raises(flight.FlightError):
                    client.query("SELECT 1")
    service_options = {**files, "tls_key": tmp_path / "nothing.key"}
    with pytest.raises(ServiceError), running(tmp_path / "other", flight_port=0, **service_options):
        pass


def test_connections_that_ask_nothing(server: Service, client: Client) -> None:
    """They take no descriptors that jobs need: beyond the limits they give way to who asks."""
    assert client.query("SELECT 1 AS a") == [{"a": 1}]
    assert server.flight is not None
    assert server.flight._sessions.peers() & {c.peer for c in connections_of(port_of(server))}
    with using(connections=20), ExitStack() as held:
        idle = [_idle(server, held) for _ in range(60)]
        eventually(lambda: sum(map(_is_shut, idle)) >= 40)
        assert client.query("SELECT 1 AS a") == [{"a": 1}]
    with using(connections_by_address=20), ExitStack() as held:
        idle = [_idle(server, held) for _ in range(60)]
        eventually(lambda: sum(map(_is_shut, idle)) >= 40)
        assert client.query("SELECT 1 AS a") == [{"a": 1}]


def _idle(server: Service, held: ExitStack) -> socket.socket:
    connection = held.enter_context(socket.create_connection(("127.0.0.1", port_of(server))))
    connection.setblocking(False)
    return connection


def _is_shut(connection: socket.socket) -> bool:
    """It is at its end: what has come before is read."""
    with suppress(BlockingIOError):
        try:
            while connection.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        return True
    return False
