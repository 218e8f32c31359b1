"""The HTTP server: a thread that serves connections, and 16 that answer requests."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import waitress
from waitress import wasyncore

from parser.errors import ServiceError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

THREADS = 16
STOP_S = 5


class HttpServer:
    """Serves an application with waitress.

    Listens at once; requests wait until `start`. Raises ServiceError if it cannot listen.
    """

    def __init__(self, app: WSGIApplication, host: str, port: int) -> None:
        self._socket = _listen(host, port)
        self._connections: dict[int, object] = {}
        self._server = waitress.create_server(
            app, map=self._connections, sockets=[self._socket], threads=THREADS, ident="sqlengine"
        )
        self._thread = threading.Thread(target=self._server.run, name="http", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.effective_port)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Accepts no more connections, completes running requests, closes all connections. May be
        called twice."""
        if not self._connections:
            return
        self._in_thread(lambda: wasyncore.dispatcher.close(self._server))
        self._server.task_dispatcher.shutdown(timeout=STOP_S)
        deadline = time.monotonic() + STOP_S
        while self._unsent() and time.monotonic() < deadline:
            time.sleep(0.005)
        self._in_thread(lambda: wasyncore.close_all(self._connections))
        if self._thread.ident is not None:
            self._thread.join(STOP_S)

    def _unsent(self) -> bool:
        return any(getattr(c, "total_outbufs_len", 0) for c in list(self._connections.values()))

    def _in_thread(self, work: Callable[[], None]) -> None:
        """Connections belong to the thread that serves them. It may be awake and find `work` before
        it is called for: work that closes what it is called with waits until that is done."""
        called = threading.Event()

        def when_called() -> None:
            called.wait(STOP_S)
            work()

        if self._thread.is_alive():
            self._server.trigger.pull_trigger(when_called)
            called.set()
        else:
            work()


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise ServiceError(
            f"cannot listen on {host} port {port}",
            detail=error.strerror or str(error),
            hint="another server may run there: choose another --port, or 0 for a free one",
        ) from None
