"""A reader of the documentation, who runs its commands in a folder of his own with `sql` on the
PATH."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import eventually

PORT = "8083"


@dataclass
class Reader:
    """Somebody who does what a page says. `token`: of the servers; `printed`: by the last
    command."""

    folder: Path
    port: int
    token: str | None = None
    servers: list[subprocess.Popen[str]] = field(default_factory=list)
    printed: str = ""

    def run(self, commands: str) -> None:
        """Runs commands in a shell; one that fails is an error."""
        done = self.shell(commands)
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        self.printed = done.stdout

    def block(self, commands: str) -> None:
        """Runs a block line by line, as far as `&`: such a line starts a server."""
        waiting = ""
        for line in commands.splitlines(keepends=True):
            command = line.split("#")[0].rstrip()
            if command.endswith("&"):
                self.run(waiting)
                self.serve(command.removesuffix("&"))
                waiting = ""
            else:
                waiting += line
        self.run(waiting)

    def serve(self, command: str) -> None:
        """Starts a server and waits until it says that it is ready."""
        log = self.folder / f"server{len(self.servers)}.log"
        with log.open("w") as out:
            shell = f"exec {command} --port {self.port}"
            self.servers.append(
                subprocess.Popen(
                    shell, shell=True, cwd=self.folder, env=self.environment(), stdout=out,
                    stderr=out, text=True,
                )
            )  # fmt: skip
        server = self.servers[-1]

        def ready() -> bool:
            assert server.poll() is None, log.read_text()
            return "ready on" in log.read_text()

        eventually(ready, log.read_text)

    def environment(self) -> dict[str, str]:
        own = {k: v for k, v in os.environ.items() if not k.startswith("SQLENGINE_")}
        path = os.pathsep.join([str(Path(sys.executable).parent), own["PATH"]])
        token = {} if self.token is None else {"SQLENGINE_TOKEN": self.token}
        return {**own, **token, "PATH": path, "SQLENGINE_SERVER": f"127.0.0.1:{self.port}"}

    def shell(self, commands: str) -> subprocess.CompletedProcess[str]:
        """Runs commands in a shell, with the port of this reader in place of the usual one."""
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", commands.replace(f":{PORT}", f":{self.port}")],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def ended(self) -> Iterator[None]:
        """Ends the servers with SIGTERM, which they have to obey."""
        yield
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
        for server in self.servers:
            assert server.wait(60) == 0
        self.servers.clear()

    def close(self) -> None:
        """Kills what is left."""
        for server in self.servers:
            server.kill()
            server.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number: int = taken.getsockname()[1]
        return number
