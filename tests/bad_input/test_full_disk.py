"""Without space the server stands still and says so; with space again it goes on, and nothing is
lost or doubled."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.service.harness import Process, User, rule
from tests.support import eventually

# No file may grow beyond what the file `limit` says.
LIMITED = """
import pathlib, resource, threading, time
def watch():
    while True:
        text = flag.read_text() if flag.exists() else ""
        soft = int(text) if text else resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, resource.RLIM_INFINITY))
        time.sleep(0.005)
flag = pathlib.Path({flag!r})
threading.Thread(target=watch, daemon=True).start()
"""
OFTEN = "checkpoint_ms=50, checkpoint_rows=10"
WINDOW = """INSERT INTO counts SELECT COUNT(*), MIN(id)
FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end"""


def fill(user: User) -> list[object]:
    """Writes events, one by one, until the server stands still or has refused many; the numbers of
    those it took."""
    taken: list[object] = []
    refused = 0
    while ready(user) and refused < 50:
        event = user.event()
        for topic, record in (
            ("events", event),
            ("timed", {"id": event["id"], "ts": "2026-01-01 00:00:00"}),
        ):
            error = user.try_to(partial(user.write, topic, record))
            if error is not None:
                assert (error.status, "no space" in error.message) == (507, True), error
                refused += 1
            elif topic == "events":
                taken.append(event["id"])
    assert len(taken) > 20
    return taken


def ready(user: User) -> bool:
    error = user.try_to(lambda: user.client.get("/readyz"))
    assert error is None or error.status == 503
    return error is None


def outlive(
    server: Process, shrink: Callable[[], object], relieve: Callable[[], object]
) -> tuple[User, list[object]]:
    """Fills the disk of a server, looks at it, makes space, and counts. Gives the events that were
    taken, too."""
    user = server.user()
    user.prepare()
    user.submit("twice", rule("twice"))
    user.submit("window", WINDOW)
    user.fired()
    shrink()
    taken = fill(user)
    # Without space for another event there may be enough for what comes of the last one.
    if not ready(user):
        told = user.refused(lambda: user.client.get("/readyz"))
        assert any(
            t in told.message
            for t in (
                "no space to write to",
                "the checkpoint could not be written",
                "the disk of the data folder is full",
            )
        ), told
    assert user.client.get("/healthz")["status"] == "ok"
    error = user.try_to(lambda: user.submit("late", rule("late")))
    assert error is None or error.status in (503, 507), error
    relieve()
    eventually(lambda: ready(user), "that it goes on")
    last = user.event()
    user.write("events", last)
    assert user.alerts(last["id"]) >= {"twice"}
    assert user.submit("late", rule("late"))["status"] in ("added", "replaced", "unchanged")
    assert user.fired() == {"twice", "late"}
    check(user, taken)
    assert server.end(signal.SIGTERM) == 0, server.said()
    return user, taken


def outlive_again(data: Path, user: User, taken: list[object]) -> None:
    """Another life on the same folder has all of it."""
    with Process(data) as second:
        again = second.user()
        again._numbers = user._numbers
        assert again.fired() == {"twice", "late"}
        again.write("timed", {"id": 10**9, "ts": "2026-01-01 05:00:00"})
        counts = eventually(lambda: again.read("counts"))
        assert counts[0]["n"] >= len(taken)
        check(again, taken)


def check(user: User, taken: list[object]) -> None:
    alerts = [(a["rule"], a["id"]) for a in user.read("alerts")]
    assert len(alerts) == len(set(alerts))
    assert set(alerts) >= {(name, number) for name in ("all", "twice") for number in taken}


@pytest.mark.slow
def test_files_that_may_not_grow(tmp_path: Path) -> None:
    flag = tmp_path / "limit"
    with Process(tmp_path / "data", before=LIMITED.format(flag=str(flag)), options=OFTEN) as server:
        user, taken = outlive(server, lambda: flag.write_text("60000"), lambda: flag.write_text(""))
    assert "stands still" in server.said()
    outlive_again(tmp_path / "data", user, taken)


@contextmanager
def on_small_disk(data: Path) -> Iterator[tuple[Process, Path]]:
    """A server on a disk of its own of 16 MB, and a file there that can fill it."""
    unshare = shutil.which("unshare")
    data.mkdir()
    mount = f"mount -t tmpfs -o size=16m none {data}"
    private = [unshare or "", "--mount", "sh", "-c"]
    if (
        unshare is None
        or subprocess.run([*private, mount], capture_output=True, check=False).returncode
    ):
        pytest.skip("a disk of its own needs unshare and mount")
    with Process(data, options=OFTEN, wrapper=[*private, f'{mount} && exec "$@"', "sh"]) as server:
        yield server, Path(f"/proc/{server.process.pid}/root{data}/ballast")


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path) -> None:
    with on_small_disk(tmp_path / "data") as (server, ballast):

        def shrink() -> None:
            with ballast.open("wb") as file:
                free = shutil.disk_usage(ballast.parent).free
                file.write(bytes(free - 200_000))

        outlive(server, shrink, ballast.unlink)


def test_a_server_without_work_says_that_its_disk_is_full(tmp_path: Path) -> None:
    with on_small_disk(tmp_path / "data") as (server, ballast):
        user = server.user()
        assert ready(user)
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 12))
        told = user.refused(lambda: user.client.get("/readyz"))
        assert "the disk of the data folder is full" in told.message
        assert user.client.get("/healthz")["status"] == "ok"
        ballast.unlink()
        assert ready(user)
