"""The four ways to change a running server, each as its users use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, Protocol

from click.testing import CliRunner

from sqlengine.cli import cli
from sqlengine.client import Refused
from tests.service.harness import User
from tests.support import eventually


class Rejected(Exception):
    """What the user was told."""


class Way(Protocol):
    """Each method returns when the user has been told that it is done; Rejected says why it was
    not."""

    origin: ClassVar[str]

    def submit(self, name: str, sql: str) -> None: ...

    def validate(self, name: str, sql: str) -> None: ...

    def remove(self, name: str) -> None: ...

    def start(self, name: str) -> None: ...

    def stop(self, name: str) -> None: ...

    def rollback(self, name: str, version: int) -> None: ...

    def history(self, name: str) -> list[str]: ...

    def list(self) -> dict[str, str]: ...


class Rest:
    """POST and PUT."""

    origin = "rest"

    def __init__(self, user: User, folder: Path) -> None:
        self.user = user

    def _ask(self, method: str, path: str, body: Any = b"", **query: object) -> Any:
        try:
            return self.user.client.request(method, f"/api/v1/jobs{path}", body, query)
        except Refused as error:
            raise Rejected(f"{error} {error.hint}") from None

    def submit(self, name: str, sql: str) -> None:
        self._ask("PUT", f"/{name}", sql.encode())

    def validate(self, name: str, sql: str) -> None:
        assert (
            self._ask("POST", "", {"name": name, "sql": sql}, dry_run="true")["status"] == "valid"
        )

    def remove(self, name: str) -> None:
        assert self._ask("DELETE", f"/{name}")["status"] == "removed"

    def start(self, name: str) -> None:
        assert self._ask("POST", f"/{name}/start")["status"] == "started"

    def stop(self, name: str) -> None:
        assert self._ask("POST", f"/{name}/stop")["status"] == "stopped"

    def rollback(self, name: str, version: int) -> None:
        assert self._ask("POST", f"/{name}/rollback", version=version)["status"] == "replaced"

    def history(self, name: str) -> list[str]:
        return [v["sql"] for v in self._ask("GET", f"/{name}/history")["versions"]]

    def list(self) -> dict[str, str]:
        return {j["name"]: j["state"] for j in self._ask("GET", "")["jobs"]}


class Folder(Rest):
    """Files for texts; HTTP for what a folder cannot say. To roll back is to write the old text
    again."""

    origin = "folder"

    def __init__(self, user: User, folder: Path) -> None:
        super().__init__(user, folder)
        self.folder = folder

    def submit(self, name: str, sql: str) -> None:
        path = self.folder / f"{name}.sql"
        before = self._refusal(path)
        path.write_text(sql)

        def taken() -> bool:
            told = self._refusal(path)
            if told is not None and told != before:
                raise Rejected(told)
            return told is None and name in self.user.states() and self.user.job(name)["sql"] == sql

        eventually(taken, f"taking '{path}'")

    def _refusal(self, path: Path) -> str | None:
        refused = self._ask("GET", "")["refused_files"]
        return next(
            (
                f"{r['error']['detail']} {r['error'].get('hint')}"
                for r in refused
                if r["file"] == str(path)
            ),
            None,
        )

    def validate(self, name: str, sql: str) -> None:
        """Over HTTP: a dry run is the same for a job of any origin."""
        super().validate(name, sql)

    def remove(self, name: str) -> None:
        (self.folder / f"{name}.sql").unlink()
        eventually(lambda: name not in self.user.states(), f"the end of '{name}'")

    def rollback(self, name: str, version: int) -> None:
        self.submit(name, self.history(name)[version - 1])


class CommandLine:
    """`sql`, called in this process, which is quicker than one of its own."""

    origin = "cli"

    def __init__(self, user: User, folder: Path) -> None:
        self.server = user.client.server
        self.files = folder.parent / "texts"
        self.files.mkdir(exist_ok=True)

    def _sql(self, *arguments: str) -> Any:
        done = CliRunner().invoke(cli, [*arguments, "--server", self.server, "--output", "json"])
        if done.exit_code:
            assert done.exit_code == 1, done.output
            raise Rejected(done.stderr)
        return json.loads(done.stdout)

    def _file(self, name: str, sql: str) -> str:
        path = self.files / f"{name}.sql"
        path.write_text(sql)
        return str(path)

    def submit(self, name: str, sql: str) -> None:
        self._sql("submit", self._file(name, sql))

    def validate(self, name: str, sql: str) -> None:
        assert self._sql("validate", self._file(name, sql))["status"] == "valid"

    def remove(self, name: str) -> None:
        assert self._sql("remove", name)["status"] == "removed"

    def start(self, name: str) -> None:
        assert self._sql("start", name)["status"] == "started"

    def stop(self, name: str) -> None:
        assert self._sql("stop", name)["status"] == "stopped"

    def rollback(self, name: str, version: int) -> None:
        assert self._sql("rollback", name, str(version))["status"] == "replaced"

    def history(self, name: str) -> list[str]:
        return [v["sql"] for v in self._sql("history", name)["versions"]]

    def list(self) -> dict[str, str]:
        return {j["name"]: j["state"] for j in self._sql("jobs")["jobs"]}


class CommandTopic:
    """Records on `_commands`, answers on `_command_results`."""

    origin = "topic"

    def __init__(self, user: User, folder: Path) -> None:
        self.user = user

    def _send(self, op: str, **fields: object) -> dict[str, Any]:
        answer = self.user.command(op=op, **fields)
        if answer["status"] == "refused":
            raise Rejected(f"{answer['error']['detail']} {answer['error'].get('hint')}")
        return answer

    def submit(self, name: str, sql: str) -> None:
        self._send("submit", name=name, sql=sql)

    def validate(self, name: str, sql: str) -> None:
        assert self._send("validate", name=name, sql=sql)["status"] == "valid"

    def remove(self, name: str) -> None:
        assert self._send("remove", name=name)["status"] == "removed"

    def start(self, name: str) -> None:
        assert self._send("start", name=name)["status"] == "started"

    def stop(self, name: str) -> None:
        assert self._send("stop", name=name)["status"] == "stopped"

    def rollback(self, name: str, version: int) -> None:
        assert self._send("rollback", name=name, version=version)["status"] == "replaced"

    def history(self, name: str) -> list[str]:
        return [v["sql"] for v in self._send("history", name=name)["versions"]]

    def list(self) -> dict[str, str]:
        return {j["name"]: j["state"] for j in self._send("list")["jobs"]}


WAYS = (Rest, Folder, CommandLine, CommandTopic)
