"""A MariaDB server, from Debian's package."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Final

from tests.servers.process import ServerProcess
from tests.servers.setup import MARIADB

_SETTINGS: Final = (
    "--bind-address=127.0.0.1", "--socket=socket", "--pid-file=pid", "--skip-grant-tables",
    "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M", "--key-buffer-size=1M",
    "--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-image=FULL", "--server-id=1",
    "--binlog-row-metadata=FULL", "--max-allowed-packet=64M",
)  # fmt: skip


class MariaDbServer(ServerProcess):
    """A server with a database 'app', which lets anybody in and writes a log of its changes."""

    name = "mariadb"

    @property
    def url(self) -> str:
        return f"jdbc:mariadb://127.0.0.1:{self.port}/app"

    def command(self) -> Sequence[str]:
        return [*self._base(), f"--port={self.port}", *_SETTINGS]

    def prepare(self) -> None:
        (self.folder / "data").mkdir()
        done = subprocess.run(
            [*self._base(), "--bootstrap"],
            cwd=self.folder,
            input=_TABLES.replace("\n ", " ").encode(),
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()

    def _base(self) -> list[str]:
        user = "root" if os.geteuid() == 0 else os.environ.get("USER", "")
        data = self.folder / "data"
        base = [MARIADB.path(), "--no-defaults", f"--datadir={data}"]
        return [*base, f"--user={user}"] if user else base


# Of the tables of the system those that replication asks for; others are not needed without grants.
_TABLES: Final = """
CREATE DATABASE app;
CREATE DATABASE IF NOT EXISTS mysql;
CREATE TABLE mysql.gtid_slave_pos (domain_id INT UNSIGNED NOT NULL, sub_id BIGINT UNSIGNED NOT NULL,
 server_id INT UNSIGNED NOT NULL, seq_no BIGINT UNSIGNED NOT NULL, PRIMARY KEY (domain_id, sub_id));
"""
