"""Transcripts of Flink's clients: what they ask and what they are answered, recorded between a client
and a server, and asked again without the client.

A transcript is JSON lines. The pages of a result are one line: where they end differs by the moment."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from tests.gateway.client import Failed, Session
from tests.support import PATIENCE_S

_HANDLE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_RESULT: Final = re.compile(r"/operations/(O\d+)/result/\d+\?rowFormat=(\w+)")
# What differs by the run: ids of jobs, ends of their names, moments, folders, times that were taken.
_MASKS: Final = (
    (re.compile(r"\b[0-9a-f]{32}\b"), "JOB"),
    (re.compile(r"\b(insert_\w+)_[0-9a-f]{8}\b"), r"\1"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+Z"), "MOMENT"),
    (re.compile(r'("\$internal.deployment.config-dir": )"[^"]*"'), r'\1"/conf"'),
    (_HANDLE, "HANDLE"),
    (re.compile(r"\(\d+\.\d+ seconds\)"), "(SOME seconds)"),
)


def masked(text: str) -> str:
    """A text without what differs by the run."""
    for pattern, mask in _MASKS:
        text = pattern.sub(mask, text)
    return text


class Recorder:
    """Takes what a client asks, gives it to a server, and notes both."""

    def __init__(self) -> None:
        self.exchanges: list[tuple[str, str, str, int, str]] = []
        self._lock = threading.Lock()

    @contextmanager
    def before(self, address: str) -> Iterator[str]:
        """Stands before a server; yields the address for the client."""
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            def forward(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server = http.client.HTTPConnection(address, timeout=PATIENCE_S)
                server.request(self.command, self.path, body, {"Content-Type": "application/json"})
                answer = server.getresponse()
                content = answer.read()
                server.close()
                with recorder._lock:
                    asked = (self.command, self.path, body.decode())
                    recorder.exchanges.append((*asked, answer.status, content.decode()))
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_DELETE = forward  # noqa: N815

            def log_message(self, *_: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def transcript(self) -> list[dict[str, Any]]:
        """What was noted, with names for handles and one line for the pages of each result."""
        names = Names()
        lines: list[dict[str, Any]] = []
        results: dict[str, dict[str, Any]] = {}
        for method, path, body, status, content in self.exchanges:
            if path.endswith("/heartbeat"):
                continue
            answer = json.loads(names.hide(content))
            path = names.hide(path)
            found = _RESULT.search(path)
            if found is None:
                asked = {
                    "method": method,
                    "path": path,
                    "body": json.loads(names.hide(body) or "null"),
                }
                lines.append({**asked, "status": status, "answer": answer})
                continue
            if found[1] not in results:
                results[found[1]] = {"result": found[1], "path": path, "rows": []}
                lines.append(results[found[1]])
            _add_page(results[found[1]], status, answer)
        return [json.loads(masked(json.dumps(line, ensure_ascii=False))) for line in lines]


class Names:
    """Names for the handles of a run, by the order in which they come."""

    def __init__(self) -> None:
        self.by_handle: dict[str, str] = {}

    def hide(self, text: str) -> str:
        """A text with names in the place of handles."""
        for kind, handle in re.findall(
            rf'"(session|operation)Handle":\s*"({_HANDLE.pattern})"', text
        ):
            count = sum(n[0] == kind[0].upper() for n in self.by_handle.values()) + 1
            self.by_handle.setdefault(handle, f"{kind[0].upper()}{count}")
        return _HANDLE.sub(lambda m: self.by_handle.get(m[0], m[0]), text)

    def show(self, text: str) -> str:
        """A text with the handles of this run."""
        for handle, name in self.by_handle.items():
            text = re.sub(rf"\b{name}\b", handle, text)
        return text


def _add_page(line: dict[str, Any], status: int, page: dict[str, Any]) -> None:
    if status != 200:
        line["errors"] = page["errors"]
    elif page["resultType"] != "NOT_READY":
        results = page.pop("results")
        line["rows"] += [[row["kind"], *row["fields"]] for row in results["data"]]
        line["columns"] = results["columns"]
        line["about"] = {k: v for k, v in page.items() if k not in ("nextResultUri", "resultType")}
        line["whole"] = page["resultType"] == "EOS"


def replay(lines: list[dict[str, Any]], address: str) -> Iterator[tuple[Any, Any]]:
    """Asks a server what a client has asked; yields what was answered now, and then."""
    names, session = Names(), Session(address)
    for line in lines:
        if "result" in line:
            found: dict[str, Any] = {"result": line["result"], "path": line["path"], "rows": []}
            for status, page in _pages(session, names.show(line["path"]), line):
                _add_page(found, status, json.loads(names.hide(json.dumps(page))))
            if not line.get("whole", True):  # the client did not read all of it
                found["rows"], found["whole"] = found["rows"][: len(line["rows"])], False
            yield json.loads(masked(json.dumps(found, ensure_ascii=False))), line
            continue
        asked = json.loads(names.show(json.dumps(line["body"])))
        status, answer = _ask(session, line["method"], names.show(line["path"]), asked)
        text = names.hide(json.dumps(answer, ensure_ascii=False))
        yield (status, json.loads(masked(text))), (line["status"], line["answer"])


def _pages(session: Session, uri: str, line: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    rows = 0
    while uri:
        status, page = _ask(session, "GET", uri, None)
        uri = page.get("nextResultUri", "")
        rows += len(page.get("results", {}).get("data", ()))
        yield status, page
        if not line.get("whole", True) and rows >= len(line["rows"]):
            return


def _ask(session: Session, method: str, path: str, body: Any) -> tuple[int, Any]:
    try:
        return 200, session.call(method, path, body)
    except Failed as error:
        return error.status, {"errors": error.texts}


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    """Writes a transcript."""
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def read(path: Path) -> list[dict[str, Any]]:
    """Reads a transcript."""
    return [json.loads(line) for line in path.read_text().splitlines()]
