"""A small schema registry: the part of Confluent's REST API that formats use, in memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flask import Flask, Response, request
from werkzeug.serving import make_server


@dataclass
class Registry:
    """Schemas by id, and their ids by subject in the order of versions. `authorization`: the header
    that every request must have, and what it `says` without; `asked`: the paths of all requests;
    `closed`: it answers 503; it answers for `slow` paths once `freed`; with `pause_s` all answers
    come byte by byte."""

    schemas: list[str] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    authorization: str | None = None
    says: str = "who are you?"
    asked: list[str] = field(default_factory=list)
    closed: bool = False
    slow: set[str] = field(default_factory=set)
    freed: threading.Event = field(default_factory=threading.Event)
    pause_s: float = 0.0
    url: str = ""

    def add(self, subject: str, schema: str) -> int:
        """Registers a schema; returns its id, which begins at 1."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number


def _answer(status: int, body: object) -> Response:
    return Response(json.dumps(body), status, content_type="application/vnd.schemaregistry.v1+json")


def _dripping(data: bytes, pause_s: float) -> Iterator[bytes]:
    for byte in data:
        time.sleep(pause_s)
        yield bytes([byte])


def _error(code: int, message: str) -> Response:
    return _answer(int(str(code)[:3]), {"error_code": code, "message": message})


def _incompatible(old: str, new: str) -> bool:
    """True if a reader of the new schema cannot read the old one: a field without default is new
    (BACKWARD, for records only)."""
    before = {f["name"] for f in json.loads(old)["fields"]}
    return any(f["name"] not in before and "default" not in f for f in json.loads(new)["fields"])


def make_app(registry: Registry) -> Flask:
    """Returns the application."""
    app = Flask("registry")
    _reads(app, registry)
    _writes(app, registry)
    return app


def _reads(app: Flask, registry: Registry) -> None:

    @app.before_request
    def check() -> Response | None:
        registry.asked.append(request.path)
        if request.path in registry.slow:
            registry.freed.wait(30)
        if registry.closed:
            return _error(50301, "closed")
        wanted = registry.authorization
        if wanted is not None and request.headers.get("Authorization") != wanted:
            return _error(40101, registry.says)
        return None

    @app.after_request
    def drip(answer: Response) -> Response:
        if registry.pause_s:
            answer.response = _dripping(answer.get_data(), registry.pause_s)
        return answer

    @app.get("/subjects")
    def subjects() -> Response:
        return _answer(200, sorted(registry.subjects))

    @app.get("/schemas/ids/<int:number>")
    def by_id(number: int) -> Response:
        if not 1 <= number <= len(registry.schemas):
            return _error(40403, f"Schema {number} not found")
        return _answer(200, {"schema": registry.schemas[number - 1]})

    @app.get("/subjects/<subject>/versions/<version>")
    def by_version(subject: str, version: str) -> Response:
        versions = registry.subjects.get(subject, [])
        at = len(versions) if version == "latest" else int(version)
        if not 1 <= at <= len(versions):
            return _error(40402, "Version not found")
        number = versions[at - 1]
        told = {"subject": subject, "version": at, "id": number}
        return _answer(200, {**told, "schema": registry.schemas[number - 1]})


def _writes(app: Flask, registry: Registry) -> None:
    @app.post("/subjects/<subject>/versions")
    def register(subject: str) -> Response:
        schema = (request.get_json(force=True) or {})["schema"]
        versions = registry.subjects.get(subject)
        if versions and _incompatible(registry.schemas[versions[-1] - 1], schema):
            return _error(40901, "Schema being registered is incompatible with an earlier schema")
        return _answer(200, {"id": registry.add(subject, schema)})

    @app.post("/subjects/<subject>")
    def look_up(subject: str) -> Response:
        schema = (request.get_json(force=True) or {})["schema"]
        for version, number in enumerate(registry.subjects.get(subject, []), 1):
            if registry.schemas[number - 1] == schema:
                return _answer(200, {"id": number, "version": version, "schema": schema})
        return _error(40403, "Schema not found")


@contextmanager
def running(ssl_context: Any = None) -> Iterator[Registry]:
    """Serves a registry on a free port of the loopback interface."""
    registry = Registry()
    server = make_server("127.0.0.1", 0, make_app(registry), threaded=True, ssl_context=ssl_context)
    scheme = "http" if ssl_context is None else "https"
    registry.url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
