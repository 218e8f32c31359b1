"""Who may ask what over HTTP, and what he is shown."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import pytest

from sqlengine.access.policy import Forbidden
from sqlengine.access.principals import TRUSTED
from sqlengine.api.app import create_app
from sqlengine.api.permissions import NEEDS, check_route, with_table
from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.access.conftest import TOKENS, Guarded
from tests.support import ROOT

JOB = "INSERT INTO a_out SELECT id FROM a_in"
# who, request, status; bodies are in BODIES.
REQUESTS = """
-        GET    /healthz                              200
-        GET    /readyz                               200
-        GET    /metrics                              401
-        GET    /api/v1/jobs                          401
-        POST   /api/v1/topics/shared/records         401
-        GET    /api/v1/nothing                       401
root     GET    /api/v1/topics/_jobs                  200
root     GET    /api/v1/topics/secret                 200
root     DELETE /api/v1/topics/_commands              400
alice    GET    /api/v1/jobs                          200
alice    GET    /api/v1/jobs/a.none                   404
alice    GET    /api/v1/jobs/b.none                   403
alice    GET    /api/v1/jobs/A.none                   403
alice    GET    /api/v1/jobs/a%2Enone                 404
alice    GET    /api/v1/jobs/x%2F..%2Fa.none          404
alice    DELETE /api/v1/jobs/b.none                   403
alice    POST   /api/v1/jobs/b.none/start             403
alice    POST   /api/v1/jobs/b.none/stop              403
alice    POST   /api/v1/jobs/b.none/rollback          403
alice    POST   /api/v1/jobs/b.none/savepoints        403
alice    GET    /api/v1/jobs/b.none/state             403
alice    GET    /api/v1/jobs/b.none/history           403
alice    GET    /api/v1/jobs/b.none/dead-letters      403
alice    GET    /api/v1/topics/a.in                   200
alice    GET    /api/v1/topics/secret                 403
alice    GET    /api/v1/topics/a.in/records           200
alice    GET    /api/v1/topics/_jobs/records          403
alice    GET    /api/v1/topics/_commands              403
alice    POST   /api/v1/topics/_commands/records      403
alice    POST   /api/v1/topics/shared/records         403
alice    POST   /api/v1/topics/a.in/records           200
alice    POST   /api/v1/tables/a.in/rows              404
alice    POST   /api/v1/tables/secret/rows            403
alice    POST   /v1/logs                              403
alice    PATCH  /api/v1/topics/secret                 403
alice    DELETE /api/v1/topics/secret                 403
alice    POST   /api/v1/topics/a.in/move              403
alice    GET    /metrics                              403
alice    GET    /api/v1/instances                     403
alice    DELETE /api/v1/groups/_commands              400
reader   GET    /api/v1/topics/a.in/records           200
reader   GET    /api/v1/topics/shared/records         403
reader   POST   /api/v1/topics/a.in/records           403
reader   POST   /api/v1/topics                        403
reader   DELETE /api/v1/jobs/a.none                   403
reader   POST   /api/v1/jobs                          403
reader   GET    /api/v1/jobs/a.none                   404
sender   POST   /api/v1/topics/shared/records         200
sender   GET    /api/v1/topics/shared/records         403
sender   GET    /api/v1/topics/shared                 200
sender   GET    /api/v1/queries                       403
sender   GET    /api/v1/catalog                       403
sender   GET    /api/v1/jobs/a.none                   403
-        OPTIONS /api/v1/topics/secret/records        401
-        HEAD   /api/v1/topics/secret/records         401
alice    HEAD   /api/v1/topics/secret/records         403
alice    HEAD   /api/v1/topics/a.in/records           200
alice    GET    //api/v1/topics/secret/records        403
alice    GET    /api/v1/topics/secret/records/        404
alice    GET    /api/v1/topics/%73ecret/records       403
alice    GET    /api/v1/topics/a.in/../secret/records 404
alice    TRACE  /api/v1/topics/secret/records         405
monitor  GET    /metrics                              200
monitor  GET    /api/v1/instances                     200
monitor  GET    /api/v1/topics/shared                 403
monitor  GET    /api/v1/openapi.json                  200
"""
BODIES = {
    "/records": b'{"id": 1}',
    "/topics": b'{"name": "a.new"}',
    "/jobs": b'{"name": "a.x", "sql": ""}',
}


def ask(
    server: Guarded, who: str, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, Any]]:
    """The status of an answer, and its body if it is JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    given = {} if who == "-" else {"Authorization": f"Bearer {TOKENS[who]}"}
    connection.request(method, path, body, {"Content-Type": "application/json", **given, **headers})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    kind = answer.headers.get_content_type()
    return answer.status, json.loads(content) if content and kind.endswith("json") else {}


@pytest.mark.parametrize("line", REQUESTS.strip().splitlines())
def test_who_may_ask(guarded: Guarded, line: str) -> None:
    who, method, path, status = line.split()
    writes = method in ("POST", "PATCH")
    body = next((b for end, b in BODIES.items() if path.endswith(end)), b"") if writes else b""
    found, answer = ask(guarded, who, method, path, body)
    assert found == int(status), answer


def test_a_refusal_says_who_what_and_why(guarded: Guarded) -> None:
    _, answer = ask(guarded, "alice", "GET", "/api/v1/topics/secret/records")
    assert answer["message"] == "principal 'alice' may not read topic 'secret'"
    assert "a pattern of topics, with role 'read' or 'submit', that 'secret' matches" in str(answer)
    _, answer = ask(guarded, "reader", "DELETE", "/api/v1/jobs/a.b")
    assert "missing: role 'submit'" in str(answer)


def test_a_refusal_for_a_role_names_the_object_too(guarded: Guarded) -> None:
    """Before the body is read, which may name more of them."""
    for method, path, what in (
        ("DELETE", "/api/v1/jobs/a.x%20y", "change job 'a.x y'"),
        ("POST", "/api/v1/jobs/a.x/stop", "change job 'a.x'"),
        ("POST", "/api/v1/jobs", "change jobs"),
        ("DELETE", "/api/v1/topics/a.in", "write topic 'a.in'"),
    ):
        status, answer = ask(guarded, "reader", method, path)
        assert (status, answer["message"]) == (403, f"principal 'reader' may not {what}")


def test_lists_show_what_one_may_see(guarded: Guarded) -> None:
    def topics(who: str) -> set[str]:
        return {t["name"] for t in ask(guarded, who, "GET", "/api/v1/topics")[1]["topics"]}

    assert topics("alice") == {"shared", "a.in", "a.out"}
    assert topics("sender") == {"shared"}
    assert topics("monitor") == set()
    assert {"_jobs", "secret"} < topics("root")


def test_tokens_are_taken_from_the_header_alone(guarded: Guarded) -> None:
    token = TOKENS["root"]
    for path in (f"/api/v1/jobs?token={token}", f"/api/v1/jobs?access_token={token}"):
        assert ask(guarded, "-", "GET", path)[0] == 401
    assert ask(guarded, "-", "GET", "/api/v1/jobs", Cookie=f"token={token}")[0] == 401
    assert ask(guarded, "-", "GET", "/api/v1/jobs", Authorization=f"Basic {token}")[0] == 401
    for bad in ("", "Bearer", "Bearer ", f"Bearer {token[:-1]}", f"Bearer {token}x", "Bearer \xe4"):
        assert ask(guarded, "-", "GET", "/api/v1/jobs", Authorization=bad)[0] == 401
    from sqlengine.access.tokens import hash_of

    hashed = f"Bearer {hash_of(token)}"
    assert ask(guarded, "-", "GET", "/api/v1/jobs", Authorization=hashed)[0] == 401


def test_every_route_has_a_need(tmp_path: Path) -> None:
    engine = Engine(Config(data=tmp_path))
    rules = list(create_app(engine).url_map.iter_rules())
    engine.close()
    routes = {(m, r.rule) for r in rules for m in (r.methods or set()) - {"HEAD", "OPTIONS"}}
    assert routes == NEEDS.keys()


def test_a_route_without_a_need_is_refused(tmp_path: Path) -> None:
    engine = Engine(Config(data=tmp_path))
    app = create_app(engine)
    app.add_url_rule("/api/v1/forgotten", "forgotten", lambda: "secret")
    answer = app.test_client().get("/api/v1/forgotten", headers={"Host": "localhost"})
    engine.close()
    assert answer.status_code == 403
    assert b"secret" not in answer.data
    with pytest.raises(Forbidden):
        check_route(TRUSTED, "GET", "/api/v1/forgotten", {})


def test_the_table_of_the_documentation() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    assert "| `GET /healthz` | anybody |" in page
    assert with_table(page) == page, "run: python -m sqlengine.api.permissions docs/security.md"
