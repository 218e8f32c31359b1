"""A server for the commands that need one: that of tests/service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sqlengine.cli import cli
from tests.service.conftest import data, server, user
from tests.service.harness import User

__all__ = ["data", "server", "user"]

Sql = Callable[..., Result]


@pytest.fixture
def sql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sql:
    """Runs `sql` with these arguments in an empty folder, without a server. Any exception that is
    not shown as an error is one of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SQLENGINE_SERVER", "http://127.0.0.1:9")
    monkeypatch.delenv("SQLENGINE_TOKEN", raising=False)

    def run(*arguments: object, stdin: bytes | str = b"") -> Result:
        result = CliRunner().invoke(cli, [str(a) for a in arguments], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def served(sql: Sql, user: User, monkeypatch: pytest.MonkeyPatch) -> Sql:
    """The same, with a server."""
    monkeypatch.setenv("SQLENGINE_SERVER", user.client.server)
    return sql
