"""Pages in a browser of this machine reach the server's port, too: only its own may use it."""

from __future__ import annotations

import http.client

import pytest

from tests.service.harness import User

FOREIGN = [
    {"Origin": "http://localhost:9999"},
    {"Origin": "http://localhost"},
    {"Origin": "https://localhost:PORT"},
    {"Origin": "http://127.0.0.1:PORT"},  # the request names 'localhost'
    {"Origin": "http://[::1]:PORT"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://localhost:PORT, http://evil.example"},
    {"Origin": "http://localhost:PORT@evil.example"},
    {"Origin": "http://localhost:99999999"},
    {"Referer": "http://localhost:9999/page"},
    {"Referer": "https://evil.example/"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Host": "evil.example:PORT"},
    {"Host": "localhost.evil.example:PORT"},
    {"Host": "evil.example:PORT", "Origin": "http://evil.example:PORT"},
    {"Host": "localhost@evil.example"},
    {"Host": "evil@localhost:PORT"},
    {"Host": "localhost:PORT, evil.example"},
    {"Host": "0.0.0.0:PORT"},
    {"Host": "[::ffff:10.0.0.1]:PORT"},
    {"Host": ""},
]
OWN = [
    {},
    {"Host": "localhost"},
    {"Host": "LOCALHOST:PORT"},
    {"Host": "127.0.0.1:PORT"},
    {"Host": "127.8.9.1:PORT"},
    {"Host": "[::1]:PORT"},
    {"Host": "[0:0:0:0:0:0:0:1]:PORT", "Origin": "http://[::1]:PORT"},
    {"Host": "[::ffff:127.0.0.1]:PORT"},
    {"Host": "localhost:7777", "Origin": "http://localhost:7777"},  # a port that is forwarded
    {"Origin": "http://localhost:PORT"},
    {"Host": "localhost", "Origin": "http://localhost:80"},
    {"Origin": "http://localhost:PORT", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Referer": "http://localhost:PORT/console"},
]


def status(user: User, headers: dict[str, str]) -> int:
    """The status of a dry run of a job with these headers."""
    port = int(user.client.server.rsplit(":", 1)[1])
    given = {n: v.replace("PORT", str(port)) for n, v in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("PUT", "/api/v1/jobs/page?dry-run=true", skip_host=True)
    for name, value in {"Host": f"localhost:{port}", **given, "Content-Length": "8"}.items():
        connection.putheader(name, value)
    connection.endheaders(b"SELECT 1")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_requests_of_foreign_pages_are_refused(user: User, headers: dict[str, str]) -> None:
    assert status(user, headers) == 403


@pytest.mark.parametrize("headers", OWN, ids=str)
def test_requests_of_own_pages_and_of_programs_are_made(
    user: User, headers: dict[str, str]
) -> None:
    assert status(user, headers) != 403
