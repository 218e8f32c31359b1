"""Local sockets whose paths may have any length: the system's addresses have 108 bytes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_MOST: Final = 107


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yields a path of the same file that an address can hold, which is valid within the block."""
    if len(os.fsencode(path)) <= _MOST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def connect_local(path: Path, timeout_s: float | None = None) -> socket.socket:
    """Returns a connection to the socket at `path`. Raises OSError if nothing listens there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with short_path(path) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return connection
