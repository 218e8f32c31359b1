"""The local socket of a server, for users of this machine whom the kernel names."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from parser.errors import ServiceError
from sqlengine.system.disk import MACHINE, make_folders
from sqlengine.system.local_sockets import connect_local, short_path

log = logging.getLogger("sqlengine")
_UNREADY: Final = ".new"
_WAITING: Final = 128


class LocalSocket:
    """Listens at `path` from its creation until `close`; one that a killed server left is replaced.
    Only the user of this process may connect, unless `mode` says otherwise.

    Raises ServiceError if the folder cannot hold it."""

    def __init__(self, path: Path, mode: int = 0o600) -> None:
        self.path = path
        try:
            make_folders(MACHINE, path.parent, lasting=True, mode=0o700)  # it may be a new DATA
            self.socket = _listening(path, mode)
            self._inode = path.stat().st_ino
        except OSError as error:
            raise ServiceError(
                f"no local socket can be made at '{path}'",
                detail=error.strerror or str(error),
                hint="its folder has to be on a file system of this machine that the user may write"
                " to; --socket names another place",
            ) from None

    def close(self) -> None:
        """Listens no more, and removes the socket's name, if it is still this one's. May be called
        twice."""
        with suppress(OSError):
            if self.path.stat().st_ino == self._inode:
                self.path.unlink()
        self.socket.close()


def is_used(path: Path) -> bool:
    """Returns whether a server listens at `path`: one that was killed does not."""
    try:
        connect_local(path, timeout_s=1.0).close()
    except OSError:
        return False
    return True


def _listening(path: Path, mode: int) -> socket.socket:
    """Returns a socket that listens at `path`: the name is there once it does."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unready = path.with_name(path.name + _UNREADY)
    try:
        unready.unlink(missing_ok=True)
        with short_path(unready) as short:
            made.bind(short)
        unready.chmod(mode)  # before it listens: nobody can have connected
        made.listen(_WAITING)
        unready.rename(path)
    except BaseException:
        made.close()
        raise
    return made
