"""A job that goes between graphs with its state gives each row once, whatever it keeps and wherever
its rows go; also where the process dies at any write on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sqlengine.broker.base import Appended
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.engine import Engine
from sqlengine.jobs.job import MAIN
from tests.engine.by_hand import die
from tests.isolation.workload import JOBS, feed, open_engine, outputs, step, submit_tables
from tests.recovery.crash_points import CrashAtWrite, Death, Life, Outputs, check_deaths

BATCHES = 9
# What happens, in order: batches, jobs that go into a graph of their own or come back, checkpoints.
MOVES: tuple[tuple[str, str], ...] = (
    ("feed", "1"), ("isolate", "window"), ("isolate", "join"), ("isolate", "files"),
    ("feed", "2"), ("isolate", "counts"), ("isolate", "database"), ("merge", "files"),
    ("feed", "3"), ("merge", "window"), ("merge", "database"), ("isolate", "rule"),
    ("checkpoint", ""),
    ("feed", "4"), ("merge", "join"), ("isolate", "window"), ("isolate", "both"),
    ("feed", "5"), ("merge", "counts"), ("merge", "rule"), ("isolate", "join"),
    ("feed", "6"), ("merge", "both"), ("merge", "window"), ("merge", "join"),
    ("feed", "7"),
)  # fmt: skip


@dataclass
class MoveFate(CrashAtWrite):
    """Counts only what is written while jobs move."""

    moving: bool = False

    def around(self, write: Callable[..., object]) -> Callable[..., object]:
        fateful = super().around(write)
        return lambda *args, **options: (fateful if self.moving else write)(*args, **options)


def act(kind: str, what: str, engine: Engine) -> None:
    match kind:
        case "feed":
            feed(engine, int(what))
            step(engine)
        case "isolate" if engine.job(what).graph == MAIN:
            engine.isolate(what)
        case "merge" if engine.job(what).graph != MAIN:
            assert engine.merge(what).status == "merged"
        case "checkpoint":
            for graph in engine.graphs.by_name.values():
                graph.runner.checkpoint(wait=True)


def live(folder: Path, operations: tuple[tuple[str, str], ...], chosen: MoveFate) -> Outputs:
    def one(kind: str, what: str, engine: Engine) -> None:
        chosen.moving = kind in ("isolate", "merge")
        act(kind, what, engine)

    def begin(engine: Engine) -> None:
        chosen.moving = False
        submit_tables(engine, folder)
        for name in [n for n in JOBS if n not in engine.log.jobs]:
            engine.submit(name, JOBS[name])

    def end(engine: Engine) -> Outputs:
        check_graphs(engine)
        return outputs(engine, folder)

    folder.mkdir()
    return Life(
        lambda: open_engine(folder), [partial(one, *o) for o in operations], end, begin
    ).live(chosen)


def check_graphs(engine: Engine) -> None:
    """Each job runs once, where the log of jobs says."""
    running = [(name, g.name) for g in engine.graphs.by_name.values() for name in g.runner.jobs]
    assert sorted(running) == sorted((j.name, j.graph) for j in engine.jobs() if j.name in JOBS)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """What comes out where no job moves."""
    found = live(
        tmp_path_factory.mktemp("quiet") / "life",
        tuple(m for m in MOVES if m[0] == "feed"),
        MoveFate(),
    )
    assert all(found.values())
    return found


def test_jobs_that_go_and_come_back_give_what_those_give_that_stay(
    tmp_path: Path, quiet: Outputs
) -> None:
    assert live(tmp_path / "life", MOVES, MoveFate()) == quiet


def check(tmp_path: Path, quiet: Outputs, points: Callable[[int], range]) -> None:
    counted = MoveFate()
    live(tmp_path / "counted", MOVES, counted)
    check_deaths(
        tmp_path,
        lambda folder, at, after: live(folder, MOVES, MoveFate(at, after)),
        quiet,
        points(counted.writes),
    )


@pytest.mark.slow
def test_a_death_at_some_writes_of_a_move_changes_nothing(tmp_path: Path, quiet: Outputs) -> None:
    check(tmp_path, quiet, lambda writes: range(1, writes + 1, 193))


@pytest.mark.slow
@pytest.mark.parametrize("eighth", range(8))
def test_a_death_at_any_write_of_a_move_changes_nothing(
    tmp_path: Path, quiet: Outputs, eighth: int
) -> None:
    check(tmp_path, quiet, lambda writes: range(1 + eighth, writes + 1, 8))


def test_a_job_that_has_read_on_where_it_came_to_stays_there(
    tmp_path: Path, quiet: Outputs
) -> None:
    """Its graph goes on at once; the process dies before the log of jobs says that it has come."""
    folder = tmp_path / "life"
    folder.mkdir()
    engine = begun(folder, 1)
    feed(engine, 2)
    append = EmbeddedBroker.append

    def dying(broker: EmbeddedBroker, topic: str, *args: Any, **options: Any) -> Appended:
        if topic == "_jobs" and engine.graphs.of("rule").name != MAIN:
            step(engine)
            raise Death
        return append(broker, topic, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedBroker, "append", dying)
        with pytest.raises(Death):
            engine.isolate("rule")
    die(engine)
    for batch in range(3, 8):
        engine = begun(folder, batch)
        check_graphs(engine)
        if batch < 7:
            die(engine)
    assert outputs(engine, folder) == quiet
    engine.close()


def begun(folder: Path, batch: int) -> Engine:
    """A life in which all that was fed has been read, and this batch, too."""
    # Which has nothing of a graph before its first checkpoint.
    engine = open_engine(folder, "topic")
    submit_tables(engine, folder)
    for name in [n for n in JOBS if n not in engine.log.jobs]:
        engine.submit(name, JOBS[name])
    feed(engine, batch)
    step(engine)
    return engine
