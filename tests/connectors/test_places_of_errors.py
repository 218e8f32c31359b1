"""An error of a table points at the option, or at the column, that is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parser.errors import SqlError
from sqlengine.config import Config
from sqlengine.engine import Engine

KAFKA = "'connector' = 'kafka', 'format' = 'json', 'properties.bootstrap.servers' = 'localhost:1'"
TOPIC = "'connector' = 'topic', 'topic' = 'x'"


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
        "CREATE TABLE t (id INT) WITH ('connector' = 'blackhole');\nINSERT INTO t SELECT id FROM s;"
    )
    column = definition.index(">") + 2
    with pytest.raises(SqlError, match=message) as raised:
        engine.submit("job", text.replace(">", "", 1))
    found = raised.value.position
    assert found is not None
    assert (found.line, found.column) == (2, column)
