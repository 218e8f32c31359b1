"""What notebooks show: results, plans, the magic `%%sql`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import sqlengine
from sqlengine import Connection, Result, connect
from tests.service.harness import TABLES, rule


class Notebook:
    """What the magic needs of IPython, which need not be installed."""

    def __init__(self, **variables: object) -> None:
        self.user_ns = dict(variables)
        self.sql: Callable[..., object] = print

    def register_magic_function(
        self, func: Callable[..., object], magic_kind: str = "line", magic_name: str | None = None
    ) -> None:
        assert (magic_kind, magic_name) == ("line_cell", "sql")
        self.sql = func


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with connect() as connection:
        connection.create_topic("events")
        connection.create_topic("alerts")
        connection.submit("tables", TABLES)
        connection.write("events", [{"id": n, "word": f"<{n}>"} for n in range(30)])
        yield connection


@pytest.fixture
def notebook(connection: Connection) -> Notebook:
    notebook = Notebook(con=connection, same=connection, number=5)
    sqlengine.load_ipython_extension(notebook)
    return notebook


def test_a_result_shows_its_first_rows_and_keeps_them(connection: Connection) -> None:
    result = connection.sql("SELECT id, word, amount FROM events")
    shown = result._repr_html_()
    assert shown.count("<tr>") == 21
    assert "<td>&lt;19&gt;</td><td><i>NULL</i></td>" in shown
    assert "more rows follow" in shown
    assert [row.id for row in result] == list(range(30))
    few = connection.sql("SELECT id FROM events LIMIT 2")
    assert next(few).id == 0
    assert few._repr_html_().endswith(
        '<tr><td style="text-align:right">1</td></tr></tbody></table>'
    )


def test_plans_keep_their_lines(connection: Connection) -> None:
    shown = connection.sql("EXPLAIN SELECT id FROM events")._repr_html_()
    assert shown.startswith("<pre>==")
    connection.submit("a", rule("a"))
    assert connection.jobs["a"].explain()._repr_html_().startswith("<pre>==")
    assert "<td>tables</td>" in connection.jobs._repr_html_()
    connection.remove("a")


def test_the_magic_runs_a_cell(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    found = notebook.sql("", "SELECT id\nFROM events LIMIT 1")
    assert isinstance(found, Result)
    assert notebook.sql("kept << SELECT id FROM events LIMIT 3") is None
    kept = notebook.user_ns["kept"]
    assert isinstance(kept, Result)
    assert len(list(kept)) == 3
    assert str(notebook.sql("--job j", rule("j"))).startswith("JobResult(name='j', status='added'")
    assert notebook.sql("-c con", "SHOW TABLES") is not None
    assert notebook.sql("", "SELECT ident FROM events") is None
    said = capsys.readouterr().err
    assert "ident" in said
    assert "^" in said
    assert notebook.sql("-c number", "SHOW TABLES") is None
    assert "variable 'number' holds no connection" in capsys.readouterr().err
    assert notebook.sql("--what", "SHOW TABLES") is None
    assert "%%sql has no option '--what'" in capsys.readouterr().err
    assert notebook.sql("SELECT id", "FROM events") is None
    assert "'SELECT id' behind %%sql is no option" in capsys.readouterr().err
    closed = notebook.user_ns["closed"] = connect("127.0.0.1:1")
    closed.close()
    assert notebook.sql("SHOW TABLES") is not None
    notebook.user_ns.clear()
    assert notebook.sql("SHOW TABLES") is None
    assert "there is no connection" in capsys.readouterr().err


def test_the_magic_in_ipython(connection: Connection) -> None:
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell()
    shell.user_ns["con"] = connection
    shell.run_line_magic("load_ext", "sqlengine")
    shell.run_cell("%%sql found <<\nSELECT id FROM events LIMIT 2").raise_error()
    assert [row.id for row in shell.user_ns["found"]] == [0, 1]
    shell.run_cell("%sql --follow SELECT id FROM events LIMIT 2").raise_error()
