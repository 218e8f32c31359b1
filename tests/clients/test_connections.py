"""Connections of clients are kept from one request to the next, and made anew where they broke."""

from __future__ import annotations

import urllib.parse

import pytest

from sqlengine.broker.errors import Unreachable
from sqlengine.client import Client, Refused
from tests.clients.one_answer import one_answer_each


def test_requests_share_a_connection() -> None:
    with one_answer_each(answers=20) as server:
        client = Client(server.url)
        for _ in range(10):
            assert client.post("/a") == client.get("/b") == {}
    assert (server.connections, len(server.requests)) == (1, 20)


def test_a_request_that_changes_nothing_is_sent_again_where_a_kept_connection_breaks() -> None:
    with one_answer_each() as server:
        client = Client(server.url)
        assert client.get("/a") == client.get("/b") == {}
    assert (server.connections, len(server.requests)) == (2, 3)


def test_another_one_is_not() -> None:
    with one_answer_each() as server:
        client = Client(server.url)
        client.get("/a")
        with pytest.raises(Unreachable):
            client.post("/b")
    assert [r.split(" HTTP")[0] for r in server.requests] == ["GET /a", "POST /b"]


def test_a_connection_that_was_closed_while_it_was_idle_is_not_used() -> None:
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
    for answer, answers in ((closing, 1), (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 0)):
        with one_answer_each(answer, answers) as server:
            client = Client(server.url)
            for _ in range(3):
                if answers:
                    assert client.post("/a") == {}
                else:
                    with pytest.raises(Unreachable):
                        client.post("/a")
        assert server.connections == 3


def test_a_proxy_is_told_the_whole_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with one_answer_each(answers=2) as proxy:
        host = urllib.parse.urlsplit(proxy.url).netloc
        monkeypatch.setenv("http_proxy", f"http://me:p%40ss@{host}")
        assert Client("http://engine.test:8083/base").get("/api/v1/jobs", wait=1) == {}
    head = proxy.requests[0].split("\r\n")
    assert head[0] == "GET http://engine.test:8083/base/api/v1/jobs?wait=1 HTTP/1.1"
    assert "Host: engine.test:8083" in head
    assert "Proxy-Authorization: Basic bWU6cEBzcw==" in head


def test_no_token_follows_to_another_place() -> None:
    moved = b"HTTP/1.1 307 Moved\r\nLocation: http://other.test/\r\nContent-Length: 0\r\n\r\n"
    with one_answer_each(moved) as server, pytest.raises(Unreachable) as error:
        Client(server.url, "secret").get("/a")
    assert "it sends its clients to http://other.test/" in str(error.value.detail)


def test_an_answer_that_is_no_problem_is_shown() -> None:
    bad = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 7\r\n\r\nno luck"
    with one_answer_each(bad) as server, pytest.raises(Refused, match="no luck") as error:
        Client(server.url).get("/a")
    assert error.value.status == 502
