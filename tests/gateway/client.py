"""A client of the gateway for tests, as thin as the protocol allows."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from tests.support import PATIENCE_S


class Failed(Exception):
    """An answer that is an error: its status and its texts."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status, body)
        self.status = status
        self.texts: list[str] = body["errors"]


@dataclass
class Result:
    """All pages of a statement's result."""

    columns: list[Any]
    rows: list[list[Any]]
    kinds: list[str]
    last: Any
    pages: int

    @property
    def names(self) -> list[str]:
        return [c["name"] for c in self.columns]


@dataclass
class Session:
    """A session of a gateway at `address`; `token` goes with each request."""

    address: str
    handle: str = ""
    version: str = "v2"
    token: str | None = None
    properties: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        body = {"properties": self.properties}
        self.handle = self.call("POST", f"/{self.version}/sessions", body)["sessionHandle"]
        return self

    def __exit__(self, *_: object) -> None:
        self.call("DELETE", self.place)

    @property
    def place(self) -> str:
        return f"/{self.version}/sessions/{self.handle}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer to a request. Failed for any but 200."""
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE_S)
        headers = {"Content-Type": "application/json; charset=UTF-8"}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        if answer.status != 200:
            raise Failed(answer.status, content)
        return content

    def begin(self, sql: str, **more: object) -> str:
        """Begins a statement; its operation's handle."""
        body = {"statement": sql, **more}
        handle: str = self.call("POST", f"{self.place}/statements", body)["operationHandle"]
        return handle

    def page(self, operation: str, token: int, row_format: str = "JSON") -> Any:
        return self.call(
            "GET", f"{self.place}/operations/{operation}/result/{token}?rowFormat={row_format}"
        )

    def pages(self, operation: str, row_format: str = "JSON") -> Iterator[Any]:
        """The pages of an operation's result, as they come."""
        uri = f"{self.place}/operations/{operation}/result/0?rowFormat={row_format}"
        while uri:
            page = self.call("GET", uri)
            uri = page.get("nextResultUri")
            if page["resultType"] != "NOT_READY":
                yield page

    def run(self, sql: str, row_format: str = "JSON", **more: object) -> Result:
        """The whole result of a statement, which ends."""
        operation = self.begin(sql, **more)
        found = list(self.pages(operation, row_format))
        self.call("DELETE", f"{self.place}/operations/{operation}/close")
        assert [p["resultType"] for p in found[-1:]] == ["EOS"]
        data = [row for page in found for row in page["results"]["data"]]
        rows, kinds = [r["fields"] for r in data], [r["kind"] for r in data]
        return Result(found[0]["results"]["columns"], rows, kinds, found[-1], len(found))

    def rows(self, sql: str, row_format: str = "JSON") -> list[list[Any]]:
        return self.run(sql, row_format).rows

    def failure(self, sql: str) -> Failed:
        """The error of a statement."""
        try:
            self.run(sql)
        except Failed as error:
            return error
        raise AssertionError(f"it did not fail: {sql}")


@contextmanager
def many(address: str, count: int) -> Iterator[list[Session]]:
    """So many sessions at once."""
    sessions = [Session(address).__enter__() for _ in range(count)]
    yield sessions
    for session in sessions:
        session.__exit__()
