"""The HTTP server: a thread that serves connections, and lanes of threads that answer requests."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from waitress import wasyncore

from parser.errors import ServiceError
from sqlengine.api.serving.admission import Admit
from sqlengine.api.serving.certificates import Certificates, TlsFiles
from sqlengine.api.serving.channels import Channels
from sqlengine.api.serving.lanes import make_lanes
from sqlengine.api.serving.listener import Connections, Listener
from sqlengine.api.serving.local_socket import LocalSocket
from sqlengine.api.serving.streams import Stream, TlsStream

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger("sqlengine")
# Threads for ordinary requests.
THREADS: Final = 16
STOP_S: Final = 5
_POLL_S: Final = 1.0


class HttpServer:
    """Serves an application with waitress.

    `admit` decides on each request when its head is complete; `tls`: files of the certificate;
    `local`: a local socket besides, which is its own from then on. Listens at once; requests wait
    until `start`. Raises ServiceError if it cannot listen, or a certificate cannot be used.
    """

    def __init__(
        self,
        app: WSGIApplication,
        host: str,
        port: int,
        *,
        admit: Admit | None = None,
        tls: TlsFiles | None = None,
        local: LocalSocket | None = None,
    ) -> None:
        self._local = local
        self._channels = Channels()
        self._connections = Connections()
        self._lanes = make_lanes(THREADS)
        sockets: list[tuple[socket.socket, Callable[[socket.socket], Stream]]]
        try:
            self._certificates = None if tls is None else Certificates(tls)
            sockets = [(_listen(host, port), self._wrap)]
        except BaseException:
            if local is not None:
                local.close()
            raise
        if local is not None:
            sockets.append((local.socket, Stream))
        self._listeners = [
            Listener(app, s, self._channels, self._lanes, self._connections, admit=admit, wrap=wrap)
            for s, wrap in sockets
        ]
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    @property
    def port(self) -> int:
        return int(self._listeners[0].effective_port)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Accepts no more connections, completes running requests, closes all connections. May be
        called twice."""
        if not self._channels:
            return
        self._in_thread(self._close_listeners)
        deadline = time.monotonic() + STOP_S
        for lane in self._lanes.values():
            lane.end(deadline)
        deadline = time.monotonic() + STOP_S
        while self._unsent() and time.monotonic() < deadline:
            time.sleep(0.005)
        self._in_thread(lambda: wasyncore.close_all(self._channels))
        if self._thread.ident is not None:
            self._thread.join(STOP_S)

    def _run(self) -> None:
        while self._channels:
            try:
                if self._certificates is not None:
                    self._certificates.refresh(time.monotonic())
                self._connections.check()
                self._channels.wait(_POLL_S)
            except Exception:
                log.exception("the thread of connections goes on")
                time.sleep(_POLL_S)
        self._channels.close()

    def _wrap(self, accepted: socket.socket) -> Stream:
        if self._certificates is None:
            return Stream(accepted)
        return TlsStream(accepted, self._certificates.context)

    def _close_listeners(self) -> None:
        if self._local is not None:
            self._local.close()
        for listener in self._listeners:
            wasyncore.dispatcher.close(listener)

    def _unsent(self) -> bool:
        return any(getattr(c, "total_outbufs_len", 0) for c in list(self._channels.values()))

    def _in_thread(self, work: Callable[[], None]) -> None:
        """Connections belong to the thread that serves them. It may be awake and find `work` before
        it is called for: work that closes what it is called with waits until that is done."""
        called = threading.Event()

        def when_called() -> None:
            called.wait(STOP_S)
            work()

        if self._thread.is_alive():
            self._listeners[0].trigger.pull_trigger(when_called)
            called.set()
        else:
            work()


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=1024,
        )
    except OSError as error:
        raise ServiceError(
            f"cannot listen on {host} port {port}",
            detail=error.strerror or str(error),
            hint="another server may run there: choose another --port, or 0 for a free one",
        ) from None
