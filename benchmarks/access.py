"""The cost of principals and of the audit log: the same requests to a server with one token, and to
one with an access file, in turns."""

from __future__ import annotations

import http.client
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.footprint import started
from benchmarks.page import Section, Table
from sqlengine.access.tokens import hash_of

TOKEN = "benchmark" * 5
TURNS, REQUESTS = 30, 300
# Of a server with principals there are as many as a large one has.
PRINCIPALS = 200
JOB = """CREATE TABLE i (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'events', 'format' = 'json');
CREATE TABLE o (id BIGINT) WITH ('connector' = 'blackhole'); INSERT INTO o SELECT id FROM i WHERE id > 0"""
ASKED = {
    "append a record": ("POST", "/api/v1/topics/quiet/records", b'{"id": 1}'),
    "read records": ("GET", "/api/v1/topics/quiet/records?limit=10", b""),
    "show a job": ("GET", "/api/v1/jobs/team.a", b""),
}


@dataclass
class Side:
    """One of the two servers, and its CPU seconds for each turn of requests, by what was asked."""

    pid: int
    url: str
    cpu_s: dict[str, list[float]] = field(default_factory=dict)
    wall_s: dict[str, list[float]] = field(default_factory=dict)

    def ask(self, what: str, times: int) -> None:
        """Sends the same request again and again over one connection."""
        method, path, body = ASKED[what]
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        began, cpu = time.perf_counter(), _cpu_s(self.pid)
        for _ in range(times):
            _send(connection, method, path, body)
        self.wall_s.setdefault(what, []).append(time.perf_counter() - began)
        self.cpu_s.setdefault(what, []).append(_cpu_s(self.pid) - cpu)
        connection.close()

    def prepare(self) -> None:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        for topic in ("events", "quiet"):
            _send(connection, "POST", "/api/v1/topics", b'{"name": "%s"}' % topic.encode())
        _send(connection, "PUT", "/api/v1/jobs/team.a", JOB.encode())
        connection.close()


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process, to the nanosecond: the clock that Linux has for each."""
    return time.clock_gettime(~pid << 3 | 2)


def _send(connection: http.client.HTTPConnection, method: str, path: str, body: bytes) -> None:
    connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    answer.read()
    if answer.status >= 300:
        raise RuntimeError(f"{method} {path}: {answer.status}")


def access_file(folder: Path) -> Path:
    """Writes an access file with many principals; the last has the token."""
    entries = [
        f'[principals.p{n}]\ntoken = "{hash_of(TOKEN if n == PRINCIPALS - 1 else str(n))}"\n'
        'roles = ["submit", "write"]\njobs = ["other.*", "team.*"]\ntopics = ["payments", "events", "quiet"]\n'
        'connectors = ["topic", "blackhole"]\n'
        for n in range(PRINCIPALS)
    ]
    file = folder / "access.toml"
    file.write_text("\n".join(entries), encoding="utf-8")
    return file


@contextmanager
def sides() -> Iterator[tuple[Side, Side]]:
    """Both servers, ready to be asked."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        token = folder / "token"
        token.write_text(TOKEN, encoding="utf-8")
        ways = (("--token-file", str(token)), ("--access", str(access_file(folder))))
        found = []
        for n, way in enumerate(ways):
            server, url = stack.enter_context(started(folder / f"data{n}", *way))
            found.append(Side(server.pid, url))
        for side in found:
            side.prepare()
        yield found[0], found[1]


def run() -> Section:
    with sides() as (plain, guarded):
        for turn in range(TURNS + 1):
            for what in ASKED:
                for side in (plain, guarded) if turn % 2 else (guarded, plain):
                    side.ask(what, REQUESTS)
        for side in (plain, guarded):  # the first turn is to warm up
            for figures in (*side.cpu_s.values(), *side.wall_s.values()):
                del figures[0]
    rows = []
    for what in ASKED:
        before, after = (_quiet_us(s.cpu_s[what]) for s in (plain, guarded))
        first, second = (
            REQUESTS / statistics.quantiles(s.wall_s[what], n=4)[0] for s in (plain, guarded)
        )
        rows.append(
            [what, f"{before:.0f}", f"{after:.0f}", f"{after / before - 1:+.1%}", f"{first:,.0f}", f"{second:,.0f}"]
        )  # fmt: skip
    columns = [
        "",
        "one token, µs",
        "access file, µs",
        "",
        "one token, a second",
        "access file, a second",
    ]
    return Section(
        "access",
        "Principals and the audit log",
        f"The same requests over one connection, {TURNS} turns of {REQUESTS:,} to each of two servers: CPU of the server"
        f" a request (lower quartile), with one token, and with an access file of {PRINCIPALS} principals, patterns and the audit"
        " log, which counts appends and reads.",
        [Table("Cost of a request", columns, rows)],
    )


def _quiet_us(seconds: list[float]) -> float:
    """The lower quartile: what else runs on the machine makes a turn longer, never shorter."""
    return statistics.quantiles(seconds, n=4)[0] / REQUESTS * 1e6
