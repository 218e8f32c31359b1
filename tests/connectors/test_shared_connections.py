"""Tables that share a connection agree on who connects, also on the password."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from parser.errors import OptionError
from sqlengine.config import Config
from sqlengine.engine import Engine

# Nobody listens there: jobs run nevertheless.
_PORT = 9
_KINDS = {
    "mqtt": f"'server' = 'tcp://127.0.0.1:{_PORT}', 'topic' = 'in', 'format' = 'json'",
    "postgres-cdc": f"'hostname' = '127.0.0.1', 'port' = '{_PORT}', 'database-name' = 'd',"
    " 'table-name' = 't', 'slot.name' = 's'",
    "mysql-cdc": f"'hostname' = '127.0.0.1', 'port' = '{_PORT}', 'database-name' = 'd',"
    " 'table-name' = 't'",
}


def _job(kind: str, name: str, password: str) -> str:
    keys = ", PRIMARY KEY (v) NOT ENFORCED" if kind.endswith("cdc") else ""
    return (
        f"CREATE TABLE i_{name} (v INT{keys}) WITH ('connector' = '{kind}', {_KINDS[kind]},"
        f" 'username' = 'u', 'password' = '{password}');\n"
        f"CREATE TABLE o_{name} (v INT) WITH ('connector' = 'blackhole');\n"
        f"INSERT INTO o_{name} SELECT v FROM i_{name}"
    )


@pytest.mark.parametrize("kind", _KINDS)
def test_another_password_is_refused_and_a_new_value_of_the_same_is_not(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQLENGINE_SECRET_ONE", "first-value")
    monkeypatch.setenv("SQLENGINE_SECRET_TWO", "other-value")
    engine = Engine(Config(data=tmp_path))
    engine.start()
    with closing(engine):
        engine.submit("j1", _job(kind, "j1", "${secret:ONE}"))
        with pytest.raises(OptionError, match="with 'i_j1', and differs in 'password'") as refused:
            engine.submit("j2", _job(kind, "j2", "${secret:TWO}"))
        assert refused.value.position is not None
        monkeypatch.setenv("SQLENGINE_SECRET_ONE", "second-value")
        engine.submit("j2", _job(kind, "j2", "${secret:ONE}"))
        with pytest.raises(OptionError, match=r"with 'i_j[12]', and differs in 'password'"):
            engine.submit("j3", _job(kind, "j3", "plainly"))
