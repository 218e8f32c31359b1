"""The attacks. Each is a function of a Random and a House, and raises AssertionError where the
server answers as it must not."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any, Final

from sqlengine.client import Refused
from tests.hostile.fuzzing.house import House
from tests.hostile.fuzzing.mutations import NASTY, mutated, mutated_text
from tests.hostile.fuzzing.samples import BROKER_MESSAGES, COLUMNS, RECORDS
from tests.support import ROOT

Attack = Callable[[Random, House], None]
# Not attacked: what the witness stands on.
_WITNESS: Final = ("witness", "fed", "seen")
_TIMEOUT_S: Final = 60


def requests(random: Random, house: House) -> None:
    """Requests of the description, with parameters, heads and bodies that are not as described."""
    method, path = random.choice(_operations(house))
    for name in ("name", "topic", "job", "group"):
        path = path.replace("{" + name + "}", _name(random))
    path = path.replace("{", "").replace("}", "")
    if random.random() < 0.5:
        known = ("limit", "offset", "shard", "after", "wait", "dry-run", "name", "version", "state")
        path += f"?{random.choice(known)}={_quoted(random.choice(NASTY))}"
    body = mutated(random, json.dumps({"name": _name(random), "sql": "SELECT 1"}).encode())
    headers = {"Content-Type": random.choice(("application/json", "text/plain", "a/b", ""))}
    if random.random() < 0.2:
        headers["Content-Encoding"] = random.choice(("gzip", "deflate", "br", "x"))
    connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=_TIMEOUT_S)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
    except (http.client.HTTPException, OSError, ValueError):
        return  # what no client can send, and answers before the body was sent
    finally:
        connection.close()
    assert answer.status < 500 or answer.status in (501, 503), (method, path, body, text)


def raw_bytes(random: Random, house: House) -> None:
    """Bytes that are hardly a request."""
    request = (
        b"POST /api/v1/jobs?name=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nSELECT 1"
    )
    with suppress(OSError), socket.create_connection(("127.0.0.1", house.port), 10) as connection:
        connection.settimeout(2)
        connection.sendall(mutated(random, request))
        if random.random() < 0.5:
            connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(1 << 16)
        assert b" 500 " not in answer.split(b"\r\n", 1)[0], answer


def broker_messages(random: Random, house: House) -> None:
    """Messages of the broker's own protocol, damaged."""
    body = mutated(random, random.choice(BROKER_MESSAGES))
    connection = http.client.HTTPConnection("127.0.0.1", house.port, timeout=_TIMEOUT_S)
    try:
        connection.request("POST", "/api/v1/broker", body, {"Content-Type": "application/msgpack"})
        answer = connection.getresponse()
        assert answer.status < 500 or answer.status == 503, (body, answer.read())
    except OSError:
        return
    finally:
        connection.close()


def statements(random: Random, house: House) -> None:
    """Statements of the tests, mixed and damaged; some are submitted, and removed again."""
    text = random.choice(_texts())
    text = mutated_text(random, text, _texts())
    if any(name in text for name in _WITNESS):
        return
    name = f"prey_{random.randrange(3)}"
    with suppress(Refused):
        query: dict[str, object] = {"dry-run": "true"} if random.random() < 0.7 else {}
        house.client.put(f"/api/v1/jobs/{name}", text.encode(), **query)
    with suppress(Refused):
        house.client.delete(f"/api/v1/jobs/{name}")


def records(random: Random, house: House) -> None:
    """Damaged records of a format, which a job reads."""
    form = random.choice(list(RECORDS))
    topic = f"prey_{form.replace('-', '_')}"
    text = (
        f"CREATE TABLE r_{topic} ({COLUMNS}) WITH ('connector' = 'topic', 'topic' = '{topic}',"
        f" 'format' = '{form}', 'scan.startup.mode' = 'latest-offset');"
        f"CREATE TABLE w_{topic} (c STRING, n BIGINT) WITH ('connector' = 'blackhole');"
        f"INSERT INTO w_{topic} SELECT c, COUNT(*) FROM r_{topic} GROUP BY c"
    )
    if form == "raw":
        text = text.replace(COLUMNS, "c STRING")
    if form == "csv":
        text = text.replace(" m MAP<STRING, INT>,", "")
    house.client.put(f"/api/v1/jobs/{topic}", text.encode())
    # A request of another attack may have stopped it.
    house.client.post(f"/api/v1/jobs/{topic}/start")
    lines = [mutated(random, random.choice(RECORDS[form])) for _ in range(20)]
    with suppress(Refused):
        house.client.post(f"/api/v1/topics/{topic}/records", b"\n".join(lines))
    state = house.user.job(topic)
    assert state["state"] in ("running", "restarting"), state


ATTACKS: Final[Mapping[str, Attack]] = {
    attack.__name__: attack
    for attack in (requests, raw_bytes, broker_messages, statements, records)
}


def _operations(house: House) -> list[tuple[str, str]]:
    about: Any = house.client.get("/api/v1/openapi.json")
    return [(method.upper(), path) for path, each in about["paths"].items() for method in each]


def _name(random: Random) -> str:
    if random.random() < 0.5:
        return f"prey_{random.randrange(3)}"
    return _quoted(mutated(random, b"prey_json"))


def _quoted(data: bytes) -> str:
    """Bytes in a path or a query: most as %XX, so that the client takes them."""
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"%{b:02X}" for b in data[:3000])


@cache
def _texts() -> list[str]:
    paths = sorted((ROOT / "tests" / "sql").rglob("*.sql"))
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [text for text in texts if len(text) < 8000]
