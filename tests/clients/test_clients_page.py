"""The programs of docs/clients.md for DB-API, SQLAlchemy and Flight SQL run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sqlengine.service import Service
from tests.clients.test_flight import port_of
from tests.clients.test_flight_clients import run_java
from tests.support import ROOT

PAGE = (Path(ROOT) / "docs" / "clients.md").read_text()


def programs(language: str, server: Service) -> list[str]:
    """The page's programs, for a server at another address."""
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    flight = f"127.0.0.1:{port_of(server)}"
    return [
        p.replace("127.0.0.1:8083", f"127.0.0.1:{server.port}").replace("127.0.0.1:8815", flight)
        for p in found
    ]


def printed(number: int, server: Service, capsys: pytest.CaptureFixture[str]) -> list[str]:
    exec(compile(programs("python", server)[number], "clients.md", "exec"), {})
    return capsys.readouterr().out.splitlines()


def test_dbapi(server: Service, capsys: pytest.CaptureFixture[str]) -> None:
    expected = ["3", """['item', 'total'] [Row(item="it's", total=Decimal('39.50'))]"""]
    assert printed(0, server, capsys) == expected


def test_sqlalchemy(server: Service, capsys: pytest.CaptureFixture[str]) -> None:
    sa = pytest.importorskip("sqlalchemy", minversion="2", reason="pandas takes SQLAlchemy 2")
    sa.dialects.registry.register("sqlengine", "sqlengine.sqlalchemy.dialect", "SqlengineDialect")
    assert printed(1, server, capsys) == ["['id']", "['a']"]


def test_adbc(server: Service, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("adbc_driver_flightsql", reason="ADBC is not installed")
    assert printed(2, server, capsys) == ["[{'page': 'a', 'ms': 14}]", "3"]


@pytest.mark.slow
def test_jdbc(server: Service, tmp_path: Path) -> None:
    program = tmp_path / "FlightExample.java"
    program.write_text(programs("java", server)[0])
    assert run_java(program, "", tmp_path).split() == ["a", "2"]
