"""Instances as real processes that are killed, stopped, continued, started and ended while rows
come: every row once."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cluster.workload import Workload
from tests.service.harness import Process
from tests.support import eventually

OPTIONS = "instances=2, parts=4, session_ms=1000, checkpoint_ms=500"


class Life:
    """A server with instances, and the workload that goes on through all that happens to them."""

    def __init__(self, data: Path, seed: int) -> None:
        self.data = data
        self.chance = random.Random(seed)
        self.server = Process(data, options=OPTIONS)
        self.work = Workload(self.server.user(), random.Random(seed))

    def instances(self) -> list[dict[str, Any]]:
        found: Any = self.work.user.client.get("/api/v1/instances")["instances"]
        return list(found)

    def running(self, count: int = 2) -> list[dict[str, Any]]:
        """The instances once so many of them have all subtasks among them."""

        def all_parts() -> list[dict[str, Any]]:
            found = [i for i in self.instances() if i["state"] == "running" and i["parts"]]
            return found if len(found) >= count and sum(len(i["parts"]) for i in found) == 4 else []

        return eventually(all_parts, self.server.said)

    def start(self) -> None:
        self.server = Process(self.data, options=OPTIONS)
        self.work.user = self.server.user()

    # ---- what happens

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def end(self) -> None:
        self.signal(signal.SIGTERM)

    def stop_and_go_on(self) -> None:
        """For a moment: shorter than its session, or so long that others have its subtasks and it is
        killed."""
        pid = self.signal(signal.SIGSTOP)
        for _ in range(self.chance.randrange(1, 4)):
            self.work.write(40)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def silence(self) -> None:
        """So long that its subtasks go to the other, and the server kills it."""
        pid = self.signal(signal.SIGSTOP)
        eventually(lambda: pid not in [i["pid"] for i in self.instances()], self.server.said)

    def kill_all(self) -> None:
        self.server.end(signal.SIGKILL)
        self.start()

    def restart(self) -> None:
        assert self.server.end(signal.SIGTERM) == 0, self.server.said()
        self.start()

    def change(self) -> None:
        """A job comes and goes while something else happens."""
        self.signal(signal.SIGKILL)
        name = f"more{self.chance.randrange(1 << 30)}"
        self.work.user.submit(
            name, "INSERT INTO alarms SELECT id, 'never' FROM readings WHERE id < 0"
        )
        self.work.user.client.delete(f"/api/v1/jobs/{name}")

    def move(self) -> None:
        """A job leaves its subtasks and comes back while an instance is killed, or the server."""
        name = self.chance.choice(["totals", "minutes"])
        self.work.user.client.post(f"/api/v1/jobs/{name}/isolate")
        self.work.write(40)
        self.signal(signal.SIGKILL)
        self.work.user.client.post(f"/api/v1/jobs/{name}/merge")
        if self.chance.random() < 0.5:
            self.kill_all()
        self.work.write(40)

    def save(self) -> None:
        """A job stops with a savepoint and goes on from it, while an instance is killed."""
        self.signal(signal.SIGKILL)
        stopped: Any = self.work.user.client.post("/api/v1/jobs/totals/stop?savepoint=true")
        self.work.write(40)
        self.work.user.client.post(
            f"/api/v1/jobs/totals/start?savepoint={quote(stopped['savepoint'])}"
        )

    def signal(self, number: int) -> int:
        pid = int(self.chance.choice(self.running(1))["pid"])
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return pid


def live(data: Path, seed: int, happens: list[Callable[[Life], None]]) -> None:
    """A life in which all that happens, in that order, with rows before, between and behind."""
    life = Life(data, seed)
    try:
        life.work.prepare()
        assert {j["graph"] for j in life.work.user.jobs() if j["state"] == "running"} == {"shared"}
        for thing in happens:
            life.work.write(200)
            thing(life)
        life.work.write(200)
        check(life.work, life.server.said)
        life.running()
        assert life.server.end(signal.SIGTERM) == 0
    finally:
        if life.server.process.poll() is None:
            life.server.end(signal.SIGKILL)


def check(work: Workload, said: Callable[[], str]) -> None:
    """All rows are there, each once. Windows last: a row that ends them is a row of the others,
    too."""
    alarms, totals = work.alarms(), work.totals()
    eventually(lambda: sum(work.alarms_found().values()) >= sum(alarms.values()), said)
    eventually(lambda: work.totals_found() == totals, lambda: (work.totals_found(), totals, said()))
    work.end()
    minutes = work.minutes()
    eventually(lambda: sum(work.minutes_found().values()) >= sum(minutes.values()), said)
    assert work.alarms_found() == alarms
    assert work.minutes_found() == minutes


@pytest.mark.slow
def test_every_row_counts_once_whatever_happens_to_instances(tmp_path: Path) -> None:
    live(tmp_path / "data", 1, [Life.change, Life.silence, Life.kill_all])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_every_row_counts_once_in_long_lives(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    things = [
        Life.kill,
        Life.end,
        Life.stop_and_go_on,
        Life.silence,
        Life.kill_all,
        Life.restart,
        Life.change,
    ]
    things += [Life.move, Life.save]
    live(tmp_path / "data", seed, chance.choices(things, k=12))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_every_row_counts_once_while_jobs_move(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    live(
        tmp_path / "data",
        seed,
        chance.choices([Life.move, Life.save, Life.kill, Life.kill_all], k=8),
    )
