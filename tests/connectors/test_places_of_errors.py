"""An error of a table points at the option, or at the column, that is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parser.errors import SqlError
from sqlengine.config import Config
from sqlengine.engine import Engine

KAFKA = "'connector' = 'kafka', 'format' = 'json', 'properties.bootstrap.servers' = 'localhost:1'"
TOPIC = "'connector' = 'topic', 'topic' = 'x', 'topic.auto-create' = 'true'"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("server")
    opened = Engine(Config(data=folder / "data", files=(folder,)))
    opened.start()
    yield opened
    opened.close()


# Each has the mark > in front of what the error points at.
@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (f"(id INT, >o BIGINT METADATA FROM 'ofset') WITH ({TOPIC}, 'format' = 'json')", "has no metadata 'ofset'"),
        (f"(id INT, >`offset` DATE METADATA) WITH ({TOPIC}, 'format' = 'json')", "BIGINT, which cannot be cast to DATE"),
        (
            (f"(id INT) WITH ({TOPIC}, 'format' = 'json', 'json.ignore-parse-errors' = 'true',"
            " >'json.fail-on-missing-field' = 'true')"),
            "exclude each other",
        ),
        (
            ("(id INT) WITH ('connector' = 'kafka', 'topic' = 'x', 'key.format' = 'raw',"
            " 'key.fields' = 'id', 'value.format' = 'csv', 'properties.bootstrap.servers' = 'localhost:1',"
            " 'value.csv.quote-character' = '|', >'value.csv.disable-quote-character' = 'true')"),
            "exclude each other",
        ),
        (f"(id INT) WITH ({KAFKA}, 'topic' = 'x', >'topic-pattern' = 'x.*')", "has both 'topic' and 'topic-pattern'"),
        (f"(id INT) WITH ({KAFKA}, 'topic' = 'x', >'properties.nothing' = '1')", "option 'properties.nothing'"),
        (f"(id INT) WITH ({KAFKA}, 'topic' = 'x', >'properties.ssl.ca.location' = '/etc/passwd')", "outside the folders"),
        ("(id INT) WITH ('connector' = 'filesystem', 'format' = 'json', >'path' = '/etc')", "outside the folders"),
        (f"(id INT) WITH ({KAFKA}, 'topic' = 'x', >'sink.delivery-guarantee' = 'exactly-once')", "transactional-id-prefix"),
        (f"(id INT) WITH ({KAFKA}, 'topic' = 'x', >'key.format' = 'json')", "needs the option 'key.fields'"),
        (f"(id INT, >m MAP<INT, INT>) WITH ({TOPIC}, 'format' = 'json')", "JSON cannot hold MAP<INT, INT>, in column 'm'"),
        (f"(id INT, >m MULTISET<INT>) WITH ({TOPIC}, 'format' = 'csv')", "CSV cannot hold MULTISET<INT>, in column 'm'"),
        (f"(>id DATE) WITH ({TOPIC}, 'format' = 'raw')", "cannot hold DATE, in column 'id'"),
        (f"(id INT, >m INTERVAL DAY) WITH ({TOPIC}, 'format' = 'avro')", "in column 'm'"),
        (f"(id INT, b INT) WITH ({TOPIC}, >'format' = 'raw')", "needs a table of one column"),
        (f"(id INT) WITH ({TOPIC}, 'format' = 'json', >'upsert' = 'perhaps')", "bad value 'perhaps' for option 'upsert'"),
        (f"(id INT) WITH ({TOPIC}, 'format' = 'json', >'upsert' = 'true')", "has no primary key"),
        (f"(id INT) WITH ({TOPIC}, 'format' = 'json', >'scan.startup.mode' = 'timestamp')", "needs the option 'scan.startup.timestamp-millis'"),
        ("(>nothing INT) WITH ('connector' = 'otlp')", "log records have no 'nothing'"),
        ("(>body INT) WITH ('connector' = 'otlp')", "column 'body' of table 's' is INT"),
        ("(id CHAR(3)) WITH ('connector' = 'datagen', >'fields.id.length' = '9')", "'fields.id.length' is more"),
        ("(id INT) WITH ('connector' = 'datagen', >'fields.id.kind' = 'sequence')", "needs the option 'fields.id.start'"),
        ("(id INT) WITH ('connector' = 'datagen', >'fields.id.max' = 'x')", "bad value 'x'"),
        ("(id INT, >i INTERVAL DAY) WITH ('connector' = 'datagen')", "datagen makes no"),
        ("(>id MAP<INT, INT>) WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:x', 'table-name' = 'x')", "which tables"),
        (f"(id INT, o INT METADATA FROM 'offset', >p INT METADATA FROM 'offset') WITH ({TOPIC}, 'format' = 'json')", "have both the metadata 'offset'"),
        (
            "(id INT) WITH ('connector' = 'jdbc', 'table-name' = 'x', >'url' = 'jdbc:sqlite:/etc/x')",
            "outside the folders",
        ),
        (  # names no table of the text, but the values of options
            ("(id INT) WITH ('connector' = 'jdbc', 'table-name' = 'x',"
            " >'url' = 'jdbc:postgresql://127.0.0.1:9/none', 'username' = 'u', 'password' = 'p')"),
            "cannot open the PostgreSQL database",
        ),
        (
            ("(id INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://127.0.0.1:9/none',"
            " 'table-name' = 'x', >'scan.partition.column' = 'id')"),
            "has no option 'scan.partition.num', which 'scan.partition.column' needs",
        ),
        (
            (f"(id INT) WITH ({TOPIC}, 'format' = 'protobuf', 'protobuf.message-class-name' = 'a.B',"
            " >'protobuf.descriptor-file' = 'none.proto')"),
            "cannot be read|outside the folders",
        ),
    ],
)  # fmt: skip
def test_the_place_of_what_is_wrong(engine: Engine, definition: str, message: str) -> None:
    text = (
        f"CREATE TABLE s\n {definition};\n"
        "CREATE TABLE t (id INT) WITH ('connector' = 'blackhole');\nINSERT INTO t SELECT 1 FROM s;"
    )
    column = definition.index(">") + 2
    with pytest.raises(SqlError, match=message) as raised:
        engine.submit("job", text.replace(">", "", 1))
    found = raised.value.position
    assert found is not None
    assert (found.line, found.column) == (2, column)


# Where it is written, or has the value that the message names, and where an option is missing: at
# the name of the table.
@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("s (id INT, >d DOUBLE) WITH ('connector' = 'mqtt', 'server' = 'tcp://localhost:1', 'topic' = 'x/{d}', 'format' = 'json')", "cannot be part of a topic"),
        ("s (id INT, >qos TINYINT METADATA) WITH ('connector' = 'mqtt', 'server' = 'tcp://localhost:1', 'topic' = 'x', 'format' = 'json')", "cannot be written"),
        (">s (id INT) WITH ('connector' = 'mqtt', 'topic' = 'x', 'format' = 'json')", "needs the option 'server'"),
        (">s (id INT) WITH ('connector' = 'topic', 'topic' = 'x')", "needs the option 'format'"),
        ("s (id INT) WITH ('connector' = 'syslog', 'server' = 'udp://localhost:1', 'format' = 'json', >'severity' = 'x')", "'x' of table 's' is no severity"),
        ("s (id INT) WITH ('connector' = 'webhook', 'url' = 'http://localhost:1', 'format' = 'json', >'header.Content-Length' = '1')", "made by the connector"),
        ("s (id INT) WITH ('connector' = 'webhook', 'url' = 'http://localhost:1', 'format' = 'json', >'body' = '{{no}}')", "names no column 'no'"),
        ("s (id INT) WITH ('connector' = 'filesystem', 'format' = 'json', >'path' = 'ftp://x/y')", "is not on this machine"),
        ("s (id INT, >p STRING METADATA FROM 'file.path') WITH ('connector' = 'filesystem', 'format' = 'json', 'path' = 'x')", "cannot be written"),
        ("s (id INT) WITH ('connector' = 'topic', >'topic' = '_epochs', 'format' = 'json')", "belongs to the system"),
        ("s (id INT) WITH ('connector' = 'topic', >'topic' = 'nothing', 'topic.auto-create' = 'false', 'format' = 'json')", "topic 'nothing' of table 's' does not exist"),
        ("s (id INT) WITH ('connector' = 'python', >'function' = 'nothing')", "does not exist"),
    ],
)  # fmt: skip
def test_the_place_where_it_is_written(engine: Engine, definition: str, message: str) -> None:
    text = f"CREATE TABLE\n {definition.replace('>', '', 1)};\nINSERT INTO s (id) SELECT 1;"
    with pytest.raises(SqlError, match=message) as raised:
        engine.submit("written", text)
    found = raised.value.position
    assert found is not None
    assert (found.line, found.column) == (2, definition.index(">") + 2)
    assert "'s'" in raised.value.reason
