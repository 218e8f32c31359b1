"""RSQLDB's paths: its requests, and answers of its form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.service.harness import TABLES, User, rule, running
from tests.service.test_rest import Caller


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    with running(tmp_path_factory.mktemp("rsqldb") / "data") as (_, user):
        user.topic("events")
        user.topic("alerts")
        user.submit("tables", TABLES)
        user.submit("all", rule("all"))
        yield user


@pytest.mark.parametrize("prefix", ["/rsqldb", "/command/task"])
def test_a_job_lives_over_the_newer_paths(user: User, prefix: str) -> None:
    ask = Caller(user)

    def post(path: str, body: bytes = b"") -> Any:
        answer = ask("POST", f"{prefix}/{path}", body)
        assert answer.status == 200
        return answer.json

    sql = rule("new").encode()
    done = {"code": 200, "status": "SUCCESS", "message": "Success", "success": True}
    assert post("submit?jobId=new&startJob=true", sql) == {**done, "data": ["new"]}
    shown = {"jobId": "new", "sql": sql.decode(), "status": "RUNNING"}
    assert post("queryById?jobId=new") == {**done, "data": shown}
    assert shown in post("queryAll")["data"]
    assert user.fired() == {"new"}
    assert post("terminate?jobId=new") == {**done, "data": "new"}
    assert post("queryById?jobId=new")["data"]["status"] == "STOPPED"
    assert user.fired() == set()
    assert post("restart?jobId=new")["success"]
    assert user.job("new")["state"] == "running"
    assert post("remove?jobId=new")["success"]
    missing = post("queryById?jobId=new")
    assert (missing["code"], missing["status"]) == (400, "CLIENT_EXCEPTION")
    assert "does not exist" in missing["data"]
    assert post("remove")["code"] == 400


def test_what_does_not_start_is_a_draft(user: User) -> None:
    ask = Caller(user)
    path = "/rsqldb/submit?jobId=later&startJob=false"
    refused = ask("POST", path, b"INSERT INTO alerts\nSELECT nothing, 1 FROM events").json
    assert "nothing" in refused["data"]
    assert ask("POST", path, rule("later").encode()).json["success"]
    assert user.job("later")["state"] == "draft"
    assert ask("POST", "/rsqldb/queryById?jobId=later").json["data"] == {
        "jobId": "later",
        "sql": rule("later"),
        "status": "STOPPED",
    }
    assert ask("POST", "/rsqldb/restart?jobId=later").json["success"]
    assert user.job("later")["sql"] == rule("later")
    assert user.fired() == {"later"}
    # Tables are there at once: nothing of them runs.
    table = TABLES.partition(";")[0].replace("events", "more")
    ask("POST", "/rsqldb/submit?jobId=more&startJob=false", table.encode())
    assert user.job("more")["state"] == "defined"
    user.client.delete("/api/v1/jobs/later")


def test_a_job_without_a_name_has_one_of_its_text(user: User) -> None:
    (name,) = Caller(user)("POST", "/rsqldb/submit?jobId=", rule("x").encode()).json["data"]
    assert name.startswith("sql-")
    user.client.delete(f"/api/v1/jobs/{name}")


def test_a_task_lives_over_the_older_paths(user: User) -> None:
    ask = Caller(user)

    def post(path: str, **form: str) -> str:
        body, kind = urlencode(form).encode(), "application/x-www-form-urlencoded"
        answer = ask("POST", f"/command/task/{path}", body, Content_Type=kind)
        assert answer.status == 200, answer.text
        return answer.text

    said = post("submit", taskName="old", sql=rule("old"))
    assert said == "Task default|old submit sql success!"
    assert user.fired() == set()
    assert post("start", taskName="old") == "Task default|old start success"
    assert user.fired() == {"old"}
    assert "default      old      started\n" in post("list")
    assert post("stop", taskName="old") == "Task default|old stop success"
    assert "default      old      stopped\n" in post("list")
    post("submit", namespace="plant", taskName="old", sql=rule("plant"))
    assert post("list", namespace="plant").splitlines()[2:] == ["plant      old      stopped"]
    assert user.job("plant.old")["state"] == "draft"
    assert ask("POST", "/command/task/submit/file", b"/etc/passwd").status == 422
    assert ask("POST", "/command/task/start?taskName=none").status == 404
    assert ask("POST", "/command/task/start").status == 400
