"""A receiver of webhooks: it keeps what it got, and answers as it is told.

    python -m tests.servers.webhook PORT FILE

keeps each request as a line of JSON in FILE, before it is answered with 200."""

from __future__ import annotations

import base64
import io
import json
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.servers.process import ServerProcess


@dataclass(frozen=True)
class Got:
    """A request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Told:
    """An answer. `after_s`: how long it takes; with `pause_s` it comes byte by byte."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    after_s: float = 0.0
    pause_s: float = 0.0


class Receiver(ThreadingHTTPServer):
    """Keeps requests in `got`, or in `file`; takes answers from `tells`, then from `reply`, and 200
    when there is none."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int = 0, file: Path | None = None) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.got: list[Got] = []
        self.tells: deque[Told] = deque()
        self.reply: Callable[[Got], Told] | None = None
        self._file = file
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        scheme = "https" if isinstance(self.socket, ssl.SSLSocket) else "http"
        return f"{scheme}://127.0.0.1:{self.server_port}"

    def take(self, got: Got) -> Told:
        with self._lock:
            if self._file is None:
                self.got.append(got)
            else:
                body = base64.b64encode(got.body).decode()
                line = json.dumps([got.method, got.path, got.headers, body])
                with self._file.open("a") as file:
                    file.write(line + "\n")
            if self.tells:
                return self.tells.popleft()
        return Told() if self.reply is None else self.reply(got)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes while it is answered is none of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        if len(body) < length:  # whoever sends it was killed in its midst: it is no request
            self.close_connection = True
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        told = self.server.take(Got(self.command, self.path, headers, body))
        time.sleep(told.after_s)
        self.send_response(told.status)
        for name, value in told.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(told.body)))
        if told.pause_s:
            self._drip(told)
            return
        self.end_headers()
        self.wfile.write(told.body)

    def _drip(self, told: Told) -> None:
        """Sends the head from its middle on, and the body, byte by byte."""
        connection, self.wfile = self.wfile, io.BytesIO()
        self.end_headers()
        head, self.wfile = self.wfile.getvalue(), connection
        self.wfile.write(head[:-10])
        for byte in head[-10:] + told.body:
            time.sleep(told.pause_s)
            self.wfile.write(bytes([byte]))

    do_PUT = do_PATCH = do_GET = do_POST  # noqa: N815

    def log_message(self, *args: object) -> None: ...


@contextmanager
def receiving(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver in a thread of this process."""
    with Receiver() as receiver:
        if context is not None:
            receiver.socket = context.wrap_socket(receiver.socket, server_side=True)
        thread = threading.Thread(target=receiver.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()


class WebhookServer(ServerProcess):
    """A receiver as a process, which can be killed."""

    name = "webhook"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def _kept(self) -> Path:
        return self.folder / "requests"

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "tests.servers.webhook", str(self.port), str(self._kept)]

    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}

    def got(self) -> list[Got]:
        """The requests of all its lives; one that it was killed over may be cut off."""
        found = []
        for line in self._kept.read_text().splitlines() if self._kept.exists() else ():
            try:
                method, path, headers, body = json.loads(line)
            except ValueError:
                continue
            found.append(Got(method, path, headers, base64.b64decode(body)))
        return found


if __name__ == "__main__":
    with Receiver(int(sys.argv[1]), Path(sys.argv[2])) as SERVER:
        SERVER.serve_forever()
