"""Hosts that are asked or told over HTTP, clients that push, and syslog."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from tests.connectors.contract.place import FULL, TYPES, Direction, Place, Property, Row
from tests.connectors.contract.servers import Servers
from tests.servers.process import free_ports
from tests.servers.rsyslog import Rsyslog
from tests.servers.webhook import Got, Receiver, Told, WebhookServer
from tests.support import PATIENCE_S

_KEYS = count()
_BOUND = {"receive.max-unread": "100 kb"}


class PolledHost(Place):
    """A host that gives the rows behind a mark, some at a time."""

    types, full = TYPES, FULL

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers)
        self._port, self._away = 0, False
        self._rows: list[bytes] = []
        self.start()

    def close(self) -> None:
        self.kill()

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        given = {
            "connector": "http", "url": f"http://127.0.0.1:{self._port}/", "format": "json",
            "scan.poll-interval": "20 ms", "scan.cursor.pointer": "/at", "scan.cursor.parameter": "after",
            "scan.cursor.initial": "0", "scan.startup.mode": "earliest-offset",
        }  # fmt: skip
        return given | (_BOUND if shown == "back-pressure" else {})

    def put_records(self, records: Sequence[bytes]) -> None:
        """See `Place`: each has its number, by which the next ones are asked for."""
        self._rows += records

    def _reply(self, got: Got) -> Told:
        if self._away:  # connections outlive their listener
            raise ConnectionError
        after = int(parse_qs(urlsplit(got.path).query)["after"][0])
        numbered = enumerate(self._rows[after : after + 50], after + 1)
        rows = (b'{"at": %d, %s' % (at, row.lstrip(b"{")) for at, row in numbered)
        kind = {"Content-Type": "application/json"}
        return Told(headers=kind, body=b"[" + b",".join(rows) + b"]")

    def kill(self) -> None:
        self._away = True
        self._host.shutdown()
        self._host.server_close()

    def start(self) -> None:
        self._away = False
        self._host = Receiver(self._port)
        self._host.reply = self._reply
        self._port = self._host.server_port
        threading.Thread(target=self._host.serve_forever, args=(0.02,), daemon=True).start()


class Webhook(Place):
    types, full = TYPES, FULL
    refused: ClassVar[Row] = {"name": "refused"}

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers)
        self._server = servers.get(WebhookServer)

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        path = "/{{id}}" if shown == "malformed" else ""
        url = f"{self._server.url}/{self.name}{path}"
        batch = {"sink.batch.max-rows": "100"} if shown == "reconnect" else {}
        return {"connector": "webhook", "url": url, "format": "json"} | batch

    def got(self) -> Sequence[Row]:
        """See `Place`: a key stands for one request."""
        mine = [g for g in self._server.got() if g.path.split("/")[1] == self.name]
        found = [g.json for g in {g.headers["idempotency-key"]: g for g in mine}.values()]
        return [row for body in found for row in (body if isinstance(body, list) else [body])]

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()


class Client(Place):
    """A client that sends rows to the engine until they are taken."""

    _port = 0

    def serve(self, port: int) -> None:
        self._port = port

    def post(self, path: str, body: bytes, kind: str) -> None:
        """Sends a request, with one key, until it is answered with 200."""
        headers = {"Content-Type": kind, "Idempotency-Key": f"k{next(_KEYS)}"}

        def sent() -> bool:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            try:
                connection.request("POST", path, body, headers)
                answer = connection.getresponse()
                said = answer.read()
            finally:
                connection.close()
            assert answer.status in (200, 404, 429, 503), said
            return answer.status == 200

        again(sent)


def again(work: Callable[[], bool]) -> None:
    """Does something until it succeeds."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if work():
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.02)
    raise AssertionError("nobody took it")


class Pushed(Client):
    types, full = TYPES, FULL

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        bound = _BOUND if shown == "back-pressure" else {}
        return {"connector": "http-push", "format": "json"} | bound

    def put_records(self, records: Sequence[bytes]) -> None:
        kind = "application/x-ndjson"
        self.post("/api/v1/tables/source/rows", b"\n".join(records), kind)


class Exporter(Client):
    """Log records: the id is their severity, of which 0 is none, the name their body."""

    columns = "severity_number INT, body STRING"
    select = "CAST(severity_number - 1 AS BIGINT), body"

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        return {"connector": "otlp"} | (_BOUND if shown == "back-pressure" else {})

    def put(self, rows: Sequence[Row]) -> None:
        records = [
            {"severityNumber": row["id"] + 1, "body": {"stringValue": row.get("name", "")}}
            for row in rows
        ]
        request = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
        self.post("/v1/logs", json.dumps(request).encode(), "application/json")


class SyslogIn(Place):
    """A sender that puts the length of each message before it."""

    types, full = TYPES, FULL
    once = False

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers)
        (self._port,) = free_ports(1)

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        listen = f"tcp://127.0.0.1:{self._port}"
        bound = _BOUND if shown == "back-pressure" else {}
        return {"connector": "syslog", "listen": listen, "format": "json"} | bound

    def put_records(self, records: Sequence[bytes]) -> None:
        """See `Place`: as far as syslog knows, which has no acknowledgements."""
        framed = b"".join(b"%d %s" % (len(r), r) for r in records)

        def sent() -> bool:
            with socket.create_connection(("127.0.0.1", self._port), 60) as connection:
                connection.sendall(framed)
            return True

        again(sent)


class SyslogOut(Place):
    once = False
    columns = "id BIGINT, name STRING, level STRING"
    select = "id, name, CASE name WHEN 'refused' THEN 'loud' ELSE 'info' END"
    types, full = TYPES, FULL
    refused: ClassVar[Row] = {"id": 2, "name": "refused"}

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers)
        self._server = servers.get(Rsyslog)

    def options(self, direction: Direction, shown: Property | None = None) -> dict[str, str]:
        severity = {} if shown == "types" else {"severity": "{{level}}"}
        return {
            "connector": "syslog", "server": f"tcp://127.0.0.1:{self._server.port}", "format": "json",
            "app-name": self.name, **severity,
        }  # fmt: skip

    def got(self) -> Sequence[Row]:
        return [json.loads(m[5]) for m in self._server.messages() if m[2] == self.name]

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()
