"""Functions of users on a server: whose fault it is, what changes while it runs, what a restart and
a rollback use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sqlengine.cli import cli
from sqlengine.functions.limits import FunctionLimits
from sqlengine.functions.pool import POOL
from sqlengine.service import Service
from tests.service.harness import TABLES, User, rule, running
from tests.support import eventually

FAULTY = """
import ctypes, os, sys, time
from sqlengine import udf

@udf
def risky(amount: int) -> int:
    if amount == 1:
        raise ValueError("one is bad")
    if amount == 2:
        os._exit(7)
    if amount == 3:
        ctypes.string_at(0)
    if amount == 4:
        time.sleep(60)
    if amount == 5:
        return len(bytearray(1 << 40))
    if amount == 6:
        sys.exit("enough")
    if amount == 7:
        return "seven"
    return amount
"""
LIMITS = FunctionLimits(row_s=0.3, memory=256 << 20, failures=100)


def alerting(name: str, module: str, call: str, kind: str = "TEMPORARY FUNCTION") -> str:
    """A job that gives an alert for every event for which a call gives more than 0, and calls a
    module of its own."""
    place = f"{module}.{call.partition('(')[0]}"
    return f"""CREATE {kind} {call.partition("(")[0]} AS '{place}' LANGUAGE PYTHON;
        INSERT INTO alerts SELECT '{name}', id FROM events WHERE {call} > 0;"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("functions")
    (folder / "faulty.py").write_text(FAULTY)
    return folder


@pytest.fixture(scope="module")
def server(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, User]]:
    data = tmp_path_factory.mktemp("server") / "data"
    with running(data, functions=folder, function_limits=LIMITS) as (service, user):
        prepare(user)
        yield service, user


def prepare(user: User) -> None:
    for topic in ("events", "alerts"):
        user.topic(topic)
    user.submit("tables", TABLES)
    user.submit("all", rule("all"))


def letters(user: User, job: str) -> list[str]:
    return [letter["reason"] for letter in user.letters() if letter["job"] == job]


def pid_of(place: str) -> int:
    """The process that runs the module of that name."""
    (host,) = [h for h in POOL.hosts() if (h.folder / f"{place}.py").exists() and h.pid is not None]
    assert host.pid is not None
    return host.pid


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_each_fault_is_a_dead_letter_of_its_job_and_of_nobody_else(
    server: tuple[Service, User],
) -> None:
    user = server[1]
    user.submit("risky", alerting("risky", "faulty", "risky(amount)"))
    user.submit("sober", rule("sober", "amount > 0"))
    events = [user.event(amount=n) for n in range(10)]
    user.write("events", *events)
    for event, amount in zip(events, range(10), strict=True):
        fired = user.alerts(event["id"])
        assert ("sober" in fired) == (amount > 0)
        assert ("risky" in fired) == (amount in (8, 9)), amount
    assert letters(user, "sober") == []
    assert letters(user, "risky") == [
        "ValueError: one is bad (faulty.py, line 8)",
        "faulty.risky: its process ended with code 7",
        "faulty.risky: its process died of SIGSEGV",
        "faulty.risky: it took longer than 0.3 s ('sql serve --function-seconds')",
        "MemoryError (faulty.py, line 16)",
        "SystemExit: enough (faulty.py, line 18)",
        "the function gave 'seven', which is no BIGINT",
    ]
    assert user.job("risky")["state"] == "running"


def test_a_module_that_was_edited_is_told_until_it_runs(
    folder: Path, server: tuple[Service, User]
) -> None:
    user = server[1]
    text = "from sqlengine import udf\n\n@udf\ndef edited(amount: int) -> int:\n    return {}\n"
    (folder / "editing.py").write_text(text.format(1))
    job = alerting("editing", "editing", "edited(amount)")
    user.submit("editing", job)
    assert user.job("editing")["hint"] is None
    (folder / "editing.py").write_text(text.format(2))
    told = "module 'editing' has changed since: submit the job again to run it"
    assert user.job("editing")["hint"].startswith(told)
    (listed,) = [j for j in user.jobs() if j["name"] == "editing"]
    assert listed["hint"].startswith(told)
    assert user.submit("editing", job)["status"] == "replaced"
    assert user.job("editing")["hint"] is None
    (folder / "editing.py").unlink()  # the copy runs on
    assert user.job("editing")["hint"] is None
    user.client.delete("/api/v1/jobs/editing")


def test_after_too_many_crashes_the_job_fails_and_others_go_on(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "crashing.py").write_text(
        "import os\nfrom sqlengine import udf\n\n@udf\ndef dies(amount: int) -> int:\n   "
        " os._exit(amount)\n"
    )
    with running(
        tmp_path / "data", functions=folder, function_limits=FunctionLimits(failures=3)
    ) as (
        _,
        user,
    ):
        prepare(user)
        user.submit("dying", alerting("dying", "crashing", "dies(amount)"))
        for n in range(3):
            assert user.fired(amount=n) == set()
        job = eventually(
            lambda: (j := user.job("dying"))["state"] == "failed" and j, "the end of the job"
        )
        last = (
            "function crashing.dies is switched off after 3 failures, the last: its process ended"
            " with code 2"
        )
        assert job["reason"] == last
        assert user.states() == {"tables": "defined", "all": "running", "dying": "failed"}
        assert user.fired(amount=1) == set()
        user.client.post("/api/v1/jobs/dying/start", {})
        assert user.fired(amount=9) == set()
        last = "crashing.dies: its process ended with code 9"
        eventually(lambda: letters(user, "dying")[-1] == last, lambda: str(letters(user, "dying")))


# The limit stands in a module beside it.
LEVELS = """
import numbers_of
from sqlengine import udf

@udf
def above(amount: int) -> int:
    return amount - numbers_of.LIMIT
"""


def test_old_and_new_content_side_by_side_then_changed_and_rolled_back(
    server: tuple[Service, User], folder: Path
) -> None:
    user = server[1]
    (folder / "numbers_of.py").write_text("LIMIT = 10\n")
    (folder / "levels.py").write_text(LEVELS)
    user.submit("old", alerting("old", "levels", "above(amount)"))
    first = pid_of("levels")
    (folder / "numbers_of.py").write_text("LIMIT = 20\n")  # the module itself stays as it is
    user.submit("new", alerting("new", "levels", "above(amount)"))
    assert [user.fired(amount=n) & {"old", "new"} for n in (10, 11, 21)] == [
        set(),
        {"old"},
        {"old", "new"},
    ]

    changed = user.submit("old", alerting("old", "levels", "above(amount)"))
    assert (changed["status"], changed["version"]) == ("replaced", 2)
    assert user.submit("old", alerting("old", "levels", "above(amount)"))["status"] == "unchanged"
    assert user.fired(amount=11) & {"old", "new"} == set()
    eventually(lambda: not alive(first), "the end of the worker that nobody needs")

    user.client.post("/api/v1/jobs/old/rollback?version=1", {})
    assert user.fired(amount=11) & {"old", "new"} == {"old"}


def test_a_restart_uses_what_was_submitted_whatever_became_of_the_file(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "gone.py").write_text(
        "from sqlengine import udf\n\n@udf\ndef level(a: int) -> int:\n    return a - 5\n"
    )
    data = tmp_path / "data"
    with running(data, functions=folder) as (_, user):
        prepare(user)
        user.submit("levels", alerting("levels", "gone", "level(amount)"))
        assert user.fired(amount=6) == {"levels"}
    (folder / "gone.py").unlink()
    with running(data, functions=folder) as (_, user):
        user.event()  # the first one's number is taken
        assert [user.fired(amount=n) for n in (5, 6)] == [set(), {"levels"}]
        error = user.refused(
            lambda: user.submit("again", alerting("again", "gone", "level(amount)"))
        )
        assert "there is no module 'gone'" in str(error)
        user.client.post("/api/v1/jobs/levels/stop", {})
        user.client.post("/api/v1/jobs/levels/start", {})
        assert user.fired(amount=6) == {"levels"}


@pytest.mark.slow
def test_a_job_of_the_watched_folder_takes_a_changed_module_with_its_own_change(
    folder: Path, tmp_path: Path
) -> None:
    def module(limit: int) -> None:
        text = (
            "from sqlengine import udf\n\n@udf\ndef beyond(a: int) -> int:\n    return a -"
            f" {limit}\n"
        )
        (folder / "watched.py").write_text(text)

    def written(text: str) -> None:
        (tmp_path / "data" / "jobs" / "watched.sql").write_text(text)

    module(5)
    with running(tmp_path / "data", functions=folder) as (_, user):
        prepare(user)
        written(alerting("watched", "watched", "beyond(amount)"))
        eventually(lambda: "watched" in user.states(), "the job of the folder")
        assert user.fired(amount=6) == {"watched"}
    module(50)
    with running(tmp_path / "data", functions=folder) as (_, user):
        user.event()  # the first one's number is taken
        assert user.fired(amount=6) == {"watched"}
        written("-- changed\n" + alerting("watched", "watched", "beyond(amount)"))
        eventually(lambda: user.job("watched")["version"] == 2, "the changed job")
        assert [user.fired(amount=n) for n in (6, 51)] == [set(), {"watched"}]


@pytest.mark.parametrize(
    ("using", "says"),
    [
        ("FILE '/etc/passwd'", "file '/etc/passwd' is not in the folder that functions come from"),
        (
            "FILE '../secret.py'",
            "file '../secret.py' is not in the folder that functions come from",
        ),
        ("FILE 'link.py'", "file 'link.py' is not in the folder that functions come from"),
        ("FILE 'missing.py'", "file 'missing.py' is not in the folder that functions come from"),
    ],
)
def test_files_elsewhere_are_refused(
    server: tuple[Service, User], folder: Path, using: str, says: str
) -> None:
    (folder.parent / "secret.py").write_text("from sqlengine import udf\n")
    (folder / "link.py").unlink(missing_ok=True)
    (folder / "link.py").symlink_to(folder.parent / "secret.py")
    sql = (
        f"CREATE TEMPORARY FUNCTION f AS 'm.f' LANGUAGE PYTHON USING {using};"
        f" {rule('x', 'f(amount) > 0')}"
    )
    assert says in str(server[1].refused(lambda: server[1].submit("outside", sql)))


@pytest.mark.parametrize("place", ["os.getpid", "subprocess.run", "sqlengine.service.serve"])
def test_modules_that_are_installed_are_refused(server: tuple[Service, User], place: str) -> None:
    sql = f"CREATE TEMPORARY FUNCTION f AS '{place}' LANGUAGE PYTHON; {rule('x', 'f(amount) > 0')}"
    assert "there is no module" in str(
        server[1].refused(lambda: server[1].submit("installed", sql))
    )


def test_a_function_of_all_jobs_changes_with_those_that_use_it(
    server: tuple[Service, User], folder: Path
) -> None:
    user = server[1]
    (folder / "shared_one.py").write_text(
        "from sqlengine import udf\n\n@udf\ndef plus(a: int) -> int:\n    return a + 1\n"
    )
    create = "CREATE FUNCTION plus AS 'shared_one.plus' LANGUAGE PYTHON"
    user.submit("definer", create)
    user.submit("caller", rule("caller", "PLUS(amount) = 7"))
    assert user.fired(amount=6) & {"caller"} == {"caller"}
    assert user.job("caller")["uses"][-1].endswith(".plus()")
    (folder / "shared_one.py").write_text(
        "from sqlengine import udf\n\n@udf\ndef plus(a: int) -> int:\n    return a + 2\n"
    )
    user.submit("definer", create)
    assert [user.fired(amount=n) & {"caller"} for n in (5, 6)] == [{"caller"}, set()]
    removed = user.refused(lambda: user.client.delete("/api/v1/jobs/definer"))
    assert "'plus()' is used by caller" in str(removed)
    assert user.fired(amount=5) & {"caller"} == {"caller"}


def test_equal_calls_of_equal_content_are_one_node(
    server: tuple[Service, User], folder: Path
) -> None:
    user = server[1]
    (folder / "merged.py").write_text(
        "from sqlengine import udf\n\n@udf\ndef same(a: int) -> int:\n    return a\n\n"
        "@udf(deterministic=False)\ndef other(a: int) -> int:\n    return a\n"
    )
    for name in ("uno", "duo"):
        for function in ("same", "other"):
            call = alerting(name, "merged", f"{function}(amount)").replace(
                f"FUNCTION {function}", f"FUNCTION {name}"
            )
            user.submit(f"{function}.{name}", call.replace(f"WHERE {function}", f"WHERE {name}"))
    for function, shared in (("same", True), ("other", False)):
        plan: Any = user.client.get(f"/api/v1/jobs/{function}.uno/explain", format="json")
        (node,) = [n for n in plan["graph"] if n["operation"] == "Filter"]
        assert (f"{function}.duo" in node["shared_with"]) == shared
        assert f"merged.{function}@" in node["label"]


@pytest.mark.slow
def test_modules_come_with_a_request_where_the_server_takes_them(
    server: tuple[Service, User], tmp_path: Path
) -> None:
    source = (
        "import told\nfrom sqlengine import udf\n\n@udf\ndef brought(a: int) -> int:\n    return a"
        " - told.LIMIT\n"
    )
    modules = {"brought_along.py": source, "told.py": "LIMIT = 3\n"}
    body: dict[str, object] = {
        "name": "b",
        "sql": alerting("b", "brought_along", "brought(amount)"),
        "modules": modules,
    }
    error = server[1].refused(lambda: server[1].client.post("/api/v1/jobs", body))
    assert "takes no modules" in str(error)
    for life in range(2):
        with running(tmp_path / "data", uploads=True) as (_, user):
            for _ in range(life):
                user.event()  # the first one's numbers are taken
                user.event()
            if not life:
                prepare(user)
                user.client.post("/api/v1/jobs", body)
                modules["../evil.py"] = ""
                evil = user.refused(
                    partial(user.client.post, "/api/v1/jobs", {**body, "name": "c"})
                )
                assert "is not the name of a module" in str(evil)
            assert [user.fired(amount=n) for n in (3, 4)] == [set(), {"b"}]


def test_the_command_line_sends_the_modules_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions" / "sent.py").write_text(
        "from sqlengine import udf\n\n@udf\ndef few(a: int) -> int:\n    return a - 3\n"
    )
    (tmp_path / "sent.sql").write_text(alerting("sent", "sent", "few(amount)"))

    def submit(user: User, *options: str) -> Result:
        given = ["submit", str(tmp_path / "sent.sql"), *options, "--server", user.client.server]
        return CliRunner().invoke(cli, given)

    with running(tmp_path / "data", uploads=True) as (_, user):
        prepare(user)
        alone = submit(user)
        assert (alone.exit_code, "sql submit --functions FOLDER" in alone.stderr) == (1, True)
        sent = submit(user, "--functions", str(tmp_path / "functions"))
        assert sent.exit_code == 0, sent.stderr
        assert [user.fired(amount=n) for n in (3, 4)] == [set(), {"sent"}]
