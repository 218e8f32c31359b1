"""A job that goes between graphs with its state gives each row once, whatever it keeps and wherever its rows go; also where
the process dies at any write on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from sqlengine.engine import Engine
from sqlengine.jobs.log import MAIN
from tests.isolation.workload import JOBS, feed, open_engine, outputs, step, submit_tables
from tests.recovery.crash_points import Fate, Life, Outputs, check_deaths

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
class MoveFate(Fate):
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
            for graph in engine.fleet.graphs.values():
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
    return Life(lambda: open_engine(folder), [partial(one, *o) for o in operations], end, begin).live(chosen)


def check_graphs(engine: Engine) -> None:
    """Each job runs once, where the log of jobs says."""
    running = [(name, g.name) for g in engine.fleet.graphs.values() for name in g.runner.jobs]
    assert sorted(running) == sorted((j.name, j.graph) for j in engine.jobs() if j.name in JOBS)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Outputs:
    """What comes out where no job moves."""
    found = live(tmp_path_factory.mktemp("quiet") / "life", tuple(m for m in MOVES if m[0] == "feed"), MoveFate())
    assert all(found.values())
    return found


def test_jobs_that_go_and_come_back_give_what_those_give_that_stay(tmp_path: Path, quiet: Outputs) -> None:
    assert live(tmp_path / "life", MOVES, MoveFate()) == quiet


def check(tmp_path: Path, quiet: Outputs, points: Callable[[int], range]) -> None:
    counted = MoveFate()
    live(tmp_path / "counted", MOVES, counted)
    check_deaths(
        tmp_path, lambda folder, at, after: live(folder, MOVES, MoveFate(at, after)), quiet, points(counted.writes)
    )


def test_a_death_at_some_writes_of_a_move_changes_nothing(tmp_path: Path, quiet: Outputs) -> None:
    check(tmp_path, quiet, lambda writes: range(1, writes + 1, 37))


@pytest.mark.slow
@pytest.mark.parametrize("eighth", range(8))
def test_a_death_at_any_write_of_a_move_changes_nothing(tmp_path: Path, quiet: Outputs, eighth: int) -> None:
    check(tmp_path, quiet, lambda writes: range(1 + eighth, writes + 1, 8))
