"""A PostgreSQL server, from Debian's package."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.servers.process import Missing, ServerProcess
from tests.servers.setup import POSTGRESQL

# It does not run as root: then as one of these.
_USERS: Final = ("postgres", "nobody")
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "wal_sender_timeout": "10s",
    "shared_buffers": "32MB",
}


class PostgresServer(ServerProcess):
    """A server with a database 'postgres', whose user 'postgres' needs no password."""

    name = "postgresql"

    def __init__(self, folder: Path) -> None:
        self._user = _other_user()
        if self._user is not None:  # who may not go through the folders of a test
            outer = Path(tempfile.mkdtemp(prefix="sqlengine-postgresql-"))
            outer.chmod(0o755)
            weakref.finalize(self, shutil.rmtree, outer, ignore_errors=True)
            folder = outer / "server"
        super().__init__(folder)

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def command(self) -> Sequence[str]:
        settings = [f"{name}={value}" for name, value in _SETTINGS.items()]
        given = [part for setting in settings for part in ("-c", setting)]
        return self._as_user("postgres", "-D", "data", "-p", str(self.port), *given)

    def prepare(self) -> None:
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        made = self._as_user(
            "initdb",
            "-D",
            "data",
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "-N",
            "--locale=C",
        )
        done = subprocess.run(made, cwd=self.folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()

    def _as_user(self, program: str, *arguments: str) -> list[str]:
        command = [str(_programs() / program), *arguments]
        if self._user is None:
            return command
        ids = [f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids, *command]

    def ready(self) -> bool:
        asked = [str(_programs() / "pg_isready"), "-q", "-h", "127.0.0.1"]
        return subprocess.run([*asked, "-p", str(self.port)], check=False).returncode == 0

    def stop(self) -> None:
        """Ends the server without waiting for its clients."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
            self._process = None

    def kill(self) -> None:
        """See `ServerProcess`: its processes with it, since it does not start beside them."""
        children = [] if self._process is None else _children(self.pid)
        super().kill()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        until = time.monotonic() + 10
        while any(map(_runs, children)) and time.monotonic() < until:
            time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _programs() -> Path:
    return Path(POSTGRESQL.path()).resolve().parent


def _children(pid: int) -> list[int]:
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _other_user() -> pwd.struct_passwd | None:
    """Returns whom the server runs as; None for the user of the tests. `Missing` where there is
    nobody."""
    if os.geteuid() != 0:
        return None
    for name in _USERS:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise Missing("PostgreSQL does not run as root, and there is no other user")
