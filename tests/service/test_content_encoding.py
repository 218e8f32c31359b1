"""Packed bodies of requests: unpacked within a bound, or refused."""

from __future__ import annotations

import gzip
import os
import time as clock
import zlib

import pytest

from sqlengine.api.content_encoding import _unpacked
from tests.service.harness import User
from tests.service.test_http_service import ask

LINES = b'{"id": 1}\n{"id": 2}\n'
SQL = b"CREATE TABLE packed (id INT) WITH ('connector' = 'blackhole');"
PACKED = {
    "gzip": gzip.compress(LINES),
    "x-gzip": gzip.compress(LINES[:10]) + gzip.compress(LINES[10:]),
    "deflate": zlib.compress(LINES),
    "identity": LINES,
}


def send(user: User, path: str, body: bytes, encoding: str) -> tuple[int, object]:
    status, _, answer = ask(user, "POST", path, body, Content_Encoding=encoding)
    return status, answer


@pytest.mark.parametrize("encoding", PACKED)
def test_records_and_texts(user: User, encoding: str) -> None:
    name = f"packed-{encoding}"
    user.client.post("/api/v1/topics", {"name": name})
    path = f"/api/v1/topics/{name}/records"
    assert send(user, path, PACKED[encoding], encoding)[0] < 300
    records = user.client.get(path)["records"]
    assert isinstance(records, list)
    assert [r["value"] for r in records] == LINES.decode().splitlines()


def test_a_job(user: User) -> None:
    status, _ = send(user, "/api/v1/jobs?name=packed", gzip.compress(SQL), "gzip")
    assert status == 201
    assert user.job("packed")["sql"] == SQL.decode()


@pytest.mark.parametrize(
    ("encoding", "body", "status", "message"),
    [
        ("br", LINES, 415, "the Content-Encoding 'br' is not supported"),
        ("gzip, gzip", LINES, 415, "the Content-Encoding 'gzip, gzip' is not supported"),
        ("gzip", LINES, 400, "the body is not gzip, as its Content-Encoding says"),
        ("gzip", PACKED["gzip"][:-9], 400, "the body is not gzip"),
        ("gzip", gzip.compress(bytes(65 << 20)), 413, "larger than 64 MiB"),
    ],
)
def test_refused(user: User, encoding: str, body: bytes, status: int, message: str) -> None:
    found, answer = send(user, "/api/v1/jobs?name=x", body, encoding)
    assert isinstance(answer, dict)
    assert (found, answer["status"]) == (status, status)
    assert message in answer["message"]


def test_a_body_of_very_many_parts(user: User) -> None:
    """Each part of a packed body costs what it has, and not what stands behind it."""
    body = gzip.compress(b"") * 100_000 + gzip.compress(LINES)
    user.client.post("/api/v1/topics", {"name": "parts"})
    start = clock.process_time()
    assert send(user, "/api/v1/topics/parts/records", body, "gzip")[0] < 300
    assert clock.process_time() - start < 3
    records = user.client.get("/api/v1/topics/parts/records")["records"]
    assert isinstance(records, list)
    assert len(records) == 2


def test_parts_of_any_length() -> None:
    texts = [os.urandom(size) for size in (0, 1, 5000, 200_000, 3, 700_000)]
    for packed in (gzip.compress, zlib.compress):
        window = 31 if packed is gzip.compress else 15
        body = b"".join(map(packed, texts))
        whole = b"".join(texts)
        assert _unpacked(body, window, len(whole)) == whole
        assert _unpacked(body, window, len(whole) - 1) is None
        with pytest.raises(EOFError):
            _unpacked(body[:-1], window, len(whole))
