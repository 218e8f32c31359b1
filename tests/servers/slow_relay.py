"""A way to a server on which its answers come slowly, as over a thin line."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_STEP_S: Final = 0.05
_READ: Final = 65_536


@contextmanager
def slow_answers(port: int, bytes_a_second: int) -> Iterator[int]:
    """Yields a port of loopback that leads to another one, whose server's answers pass at this
    rate."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        arguments = (listener, port, bytes_a_second)
        threading.Thread(target=_serve, args=arguments, daemon=True).start()
        yield listener.getsockname()[1]


def _serve(listener: socket.socket, port: int, bytes_a_second: int) -> None:
    with suppress(OSError):  # the listener is closed
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", port))
            some = max(int(bytes_a_second * _STEP_S), 1)
            for ends, most in (((near, far), 0), ((far, near), some)):
                threading.Thread(target=_pass_on, args=(*ends, most), daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket, most: int) -> None:
    """Passes on what comes; `most` bytes in each step, or without it all at once."""
    with suppress(OSError):
        while data := source.recv(most or _READ):
            target.sendall(data)
            if most:
                time.sleep(_STEP_S)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
