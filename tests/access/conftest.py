"""A server with an access file, and users with tokens of its principals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sqlengine.access.tokens import hash_of
from sqlengine.client import Client
from tests.service.harness import User, running

NAMES = ("root", "alice", "bob", "reader", "sender", "monitor")
TOKENS = {name: f"{name}-{'t' * 40}" for name in NAMES}
PRINCIPALS = """
[principals.root]
roles = ["admin"]

[principals.alice]
roles = ["submit", "write"]
jobs = ["a.*"]
topics = { read = ["shared", "a.*", "later"], write = ["a.*"] }
functions = ["words.*"]
quota = { jobs = 3 }

[principals.bob]
roles = ["submit", "write"]
jobs = ["b.*"]
topics = ["shared", "b.*"]
functions = []

[principals.reader]
roles = ["read"]
jobs = ["a.*"]
topics = ["a.*"]

[principals.sender]
roles = ["write"]
topics = ["shared"]
quota = { append-rate = "1kb" }

[principals.monitor]
roles = ["read"]
topics = []
"""


def access_text(principals: str = PRINCIPALS, tokens: dict[str, str] = TOKENS) -> str:
    """The access file, in which each principal has a token."""
    lines = []
    for line in principals.splitlines():
        lines.append(line)
        if line.startswith("[principals."):
            name = line.removeprefix("[principals.").removesuffix("]")
            lines += [f'token = "{hash_of(tokens[name])}"'] if name in tokens else []
    return "\n".join(lines)


def rows_of(answer: dict[str, object], key: str) -> list[Any]:
    found = answer[key]
    assert isinstance(found, list)
    return found


def table(name: str, topic: str, more: str = "") -> str:
    return (
        f"CREATE TABLE {name} (id BIGINT, word STRING) WITH ('connector' = 'topic', 'topic' = '{topic}',"
        f" 'format' = 'json', 'scan.startup.mode' = 'earliest-offset'{more});\n"
    )


def temporary(name: str, topic: str, more: str = "") -> str:
    return table(name, topic, more).replace("CREATE TABLE", "CREATE TEMPORARY TABLE", 1)


OUT = temporary("mine", "a.out")


@dataclass(frozen=True)
class Guarded:
    """A server with principals. `file`: its access file; `url`: of the server."""

    file: Path
    url: str

    def user(self, name: str) -> User:
        """Who has the token of this principal."""
        return User(Client(self.url, TOKENS[name], "rest"))

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    file = folder / "access.toml"
    file.write_text(access_text())
    (folder / "data" / "functions").mkdir(parents=True)
    (folder / "data" / "functions" / "words.py").write_text(
        "from sqlengine import udf\n\n\n@udf\ndef twice(text: str) -> str:\n    return text * 2\n"
    )
    with running(folder / "data", access=file, files=(folder,), uploads=True) as (service, _):
        server = Guarded(file, f"http://127.0.0.1:{service.port}")
        root = server.user("root")
        for topic in ("shared", "a.in", "a.out", "b.in", "b.out", "secret"):
            root.topic(topic)
        yield server


@pytest.fixture(scope="module")
def tables(guarded: Guarded) -> Guarded:
    """The administrator has a table and a view over a topic that is his alone, and a job of bob's
    reads one that is bob's."""
    root = guarded.user("root")
    shared = table("secrets", "secret") + table("common", "shared")
    root.submit("defs", shared + "CREATE VIEW peek AS SELECT id, word FROM secrets WHERE id > 0;")
    root.submit("words", "CREATE FUNCTION twice AS 'words.twice' LANGUAGE PYTHON;")
    root.write("secret", {"id": 7, "word": "hidden"})
    return guarded
