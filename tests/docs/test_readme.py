"""The README by its reader: every block and command of it, one after the other, in a fresh folder,
with `sql` on the PATH and a server that was started as the README says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

import pytest

from sqlengine.cli.sql import MODULES
from tests.support import ROOT, eventually

README = (ROOT / "README.md").read_text(encoding="utf-8")
USERS = (ROOT / "docs" / "user-functions.md").read_text(encoding="utf-8")
# A block with its language, a block that is indented (what a command prints), or code in a line.
PIECE = re.compile(
    r"^```(?P<language>\w*)\n(?P<block>.*?)^```$"
    r"|(?P<printed>(?:^    \S[^\n]*\n)+)"
    r"|`(?P<code>(?:sql|curl|cp|echo) [^`]+)`",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"(?:--|#) ([\w/]+\.(?:sql|py))\n")
SETUP = "make setup && "
PORT = "8083"


@dataclass
class Reader:
    """Somebody who does what the README says. `printed`: by the last command."""

    folder: Path
    port: int
    servers: list[subprocess.Popen[str]] = field(default_factory=list)
    printed: str = ""

    def run(self, commands: str) -> None:
        """Runs commands in a shell; one that fails is an error."""
        done = self._shell(commands)
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
        return {**own, "PATH": path, "SQLENGINE_SERVER": f"127.0.0.1:{self.port}"}

    def _shell(self, commands: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", commands.replace(f":{PORT}", f":{self.port}")],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def mention(self, code: str) -> None:
        """Runs a command of the text; of one without arguments, or with an ellipsis, only that it
        exists is known."""
        words = code.split()
        if words[0] == "sql" and (len(words) == 2 or "…" in code):
            assert words[1] in MODULES, f"there is no command `{code}`"
        elif words[:2] == ["sql", "serve"]:
            other = Reader(self.folder / "other", free_port())
            other.folder.mkdir()
            with other.ended():
                other.serve(code)
        else:
            self.run(code.replace(r"\|", "|"))

    def refused(self, shown: str) -> None:
        """Puts the statement that is shown into its file, and sees the error that is shown."""
        command, *error = shown.splitlines()
        (line,) = re.findall(r"^  \| (\w.*)$", shown, re.MULTILINE)
        (self.folder / "rule.sql").write_text(line)
        done = self._shell(command.removeprefix("$ "))
        assert (done.returncode, done.stderr.splitlines()) == (1, error)

    def ended(self) -> Ended:
        return Ended(self)


@dataclass
class Ended:
    """Ends the servers of a reader with SIGTERM, which they have to obey."""

    reader: Reader

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        for server in self.reader.servers:
            server.send_signal(signal.SIGTERM)
        for server in self.reader.servers:
            assert server.wait(60) == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number: int = taken.getsockname()[1]
        return number


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Its folder has the examples beside it, as the repository has."""
    assert shutil.which("curl"), "the README uses curl"
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    one = Reader(tmp_path, free_port())
    try:
        yield one
    finally:
        for server in one.servers:
            server.kill()
            server.wait()


def test_the_readme_does_what_it_says(reader: Reader) -> None:
    with reader.ended():
        done = [follow(reader, piece) for piece in PIECE.finditer(README)]
    assert done.count("sh") >= 3
    assert done.count("code") >= 12
    assert {"sql", "printed", "refused"} <= set(done)


def follow(reader: Reader, piece: re.Match[str]) -> str:
    """Does what a piece says, and returns its kind."""
    language, block = piece["language"], piece["block"]
    if piece["code"]:
        reader.mention(piece["code"])
        return "code"
    if piece["printed"]:
        if not piece["printed"].strip().startswith("make"):
            shown = dedent(piece["printed"])
            assert reader.printed.endswith(shown), reader.printed
            return "printed"
        return "make"
    if language == "sh":
        if not block.startswith(SETUP):  # this environment is what it makes
            reader.block(block)
        return "sh"
    if language == "":
        reader.refused(block)
        return "refused"
    name = FILE.match(block)
    assert name, f"where does this block go?\n{block}"
    (reader.folder / name[1]).write_text(block)
    return language


def test_functions_and_sinks_in_python_by_the_readmes_server(reader: Reader) -> None:
    (start,) = re.findall(r"^(sql serve .*?)&", README, re.MULTILINE)
    for name, source in re.findall(
        r"^```python\n# (functions/\w+\.py)\n(.*?)^```", USERS, re.M | re.S
    ):
        path = reader.folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    blocks = re.findall(r"^```sql\n(.*?)^```", USERS, re.M | re.S)
    with reader.ended():
        reader.serve(start)
        for number, block in enumerate(blocks):
            (reader.folder / f"job{number}.sql").write_text(block)
            reader.run(f"sql submit job{number}.sql")
        row = '{"address": "me@host.org", "amount": 2.5, "tries": 4, "note": "root", "ts": "2026-01-31 12:00:01"}'
        reader.run(
            f"echo '{row}' | sql topic write logins; sql tail risks --from earliest --limit 1"
        )
        assert reader.printed.splitlines()[1:] == ['{"host":"host.org","risk":10.0}']
        log = reader.folder / "server0.log"
        eventually(lambda: "wake up: word me@host.org" in log.read_text(), log.read_text)
