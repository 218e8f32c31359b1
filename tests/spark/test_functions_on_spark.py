"""Functions of users in tasks: the rows of the embedded executor, whatever the functions do and
whatever is repeated."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from parser.errors import Position, ServiceError
from parser.statements import CreateFunction
from parser.types import DOUBLE, STRING
from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.executors.spark.tasks.answers import AnsweredElsewhere, TaskAnswers
from sqlengine.executors.spark.tasks.functions import TaskFunctions
from sqlengine.executors.spark.tasks.state import TaskState
from sqlengine.executors.spark.worker import Step
from sqlengine.functions.kernels import ScalarKernel
from sqlengine.functions.library import Library
from sqlengine.functions.pool import POOL
from sqlengine.jobs.job import JobState
from sqlengine.machine import THIS, Machine
from sqlengine.session.environment import open_runner, script_library
from sqlengine.session.runner import EmbeddedRunner, Runner
from sqlengine.session.session import Session
from sqlengine.session.spark import script_runner
from tests.functions.sessions import Recorder
from tests.functions.sessions import run as rows_of
from tests.functions.test_answers import VARYING, die, rolling
from tests.functions.test_functions_sql import QUERIES
from tests.functions.test_python_sinks import EVENTS, Life, functions, table
from tests.functions.users_module import MODULE, NAMES
from tests.spark.scripting import Collected
from tests.spark.staged import RepeatedFrames, Staged
from tests.support import ROOT, eventually
from udf.user import UserFunction
from udf.vector import Vector

CREATES = "".join(f"CREATE TEMPORARY FUNCTION {n} AS 'mine.{n}' LANGUAGE PYTHON;" for n in NAMES)
# Rows at which functions raise, or end their process, are set aside.
SCRIPT = (
    CREATES
    + """SET 'job.on-error' = 'dead-letter';
CREATE TEMPORARY TABLE src (k STRING, v DOUBLE, w INT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '{folder}/rows', 'format' = 'json');
SELECT k, strict(w), greet(s), explicit(w, CAST(NULL AS STRING)) FROM src WHERE true_for_big(w);
SELECT k, doubled(w) FROM src;
SELECT k, f0, text, length FROM src, LATERAL TABLE(spread(w)) AS a, LATERAL TABLE(chunks(s)) AS b;
SELECT k, window_end, Weighted(v, w), Longest(s) FROM TABLE(TUMBLE(TABLE src, DESCRIPTOR(ts), INTERVAL '10' SECOND))
GROUP BY k, window_start, window_end;
SELECT k, Weighted(v, w) FROM (SELECT k, MAX(v) AS v, MIN(w) AS w FROM src WHERE w < 99 GROUP BY k) AS t GROUP BY k;
SELECT total FROM (SELECT k, strict(COUNT(*)) AS total FROM src GROUP BY k) AS t WHERE strict(total) > 0"""
)


def write_rows(folder: Path) -> None:
    rng = random.Random(5)
    (folder / "rows").mkdir(parents=True)
    (folder / "mine.py").write_text(MODULE)
    for part in range(3):
        rows = [
            {
                "k": rng.choice("abcd"),
                "v": float(rng.randint(0, 9)),
                "w": rng.choice((0, 1, 2, 3, 5, 13)),
                "s": " ".join("xyz"[: rng.randint(0, 3)]),
                "ts": f"2020-01-01 00:00:{at:02}",
            }
            for at in range(40)
        ]
        rows[7 * part] |= {"w": (4, 99, 4)[part]}
        lines = (json.dumps(row) + "\n" for row in rows)
        (folder / "rows" / f"{part}.json").write_text("".join(lines))


def outcome(folder: Path, opened: AbstractContextManager[Runner]) -> tuple[object, int]:
    """The rows of each statement, in any order, and the number of those set aside."""
    text = SCRIPT.replace("{folder}", str(folder))
    collected, aside = Collected(text), RowsSetAside()
    with opened as runner, script_library(folder / "data", str(folder / "s.sql")) as library:
        assert isinstance(runner, EmbeddedRunner)
        runner.dead_letters = aside
        Session(runner, collected, library=library).run(text)
    found = collected.finish()
    assert not found.errors
    return found.rows, aside.rows


@pytest.mark.slow
def test_a_script_gives_the_same_in_stages(tmp_path: Path) -> None:
    write_rows(tmp_path)
    embedded = outcome(tmp_path, open_runner(tmp_path / "here", 100, "embedded"))
    assert embedded[1] > 20
    for staged in (Staged(2), Staged(3, RepeatedFrames)):
        assert outcome(tmp_path, script_runner(tmp_path / "data", 100, staged)) == embedded


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_a_script_gives_the_same_on_spark(spark: Any, tmp_path: Path) -> None:
    write_rows(tmp_path)
    embedded = outcome(tmp_path, open_runner(tmp_path / "here", 100, "embedded"))
    assert outcome(tmp_path, open_runner(tmp_path / "there", 100, "spark")) == embedded


def test_each_query(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    with (
        script_runner(tmp_path / "data", 100, Staged(2)) as runner,
        script_library(tmp_path / "data", str(tmp_path / "s.sql")) as library,
    ):
        session = Session(runner, Recorder(), library=library)
        session.run(CREATES + "SET 'job.on-error' = 'dead-letter';")
        assert {query: rows_of(session, query) for query in QUERIES} == QUERIES


AWAY = """
import pickle, sys
import numpy as np, pyarrow as pa
from udf.registry import KernelContext, call, lookup
from udf.vector import Vector
from parser.types import BIGINT

functions = pickle.load(sys.stdin.buffer)
def made():
    (user,) = functions.functions
    context = KernelContext(3, BIGINT, (BIGINT,))
    yield call(lookup(user.identity), [Vector(pa.array([1, 2, None]))], context).array(3)
print(*functions.around("graph", made()), functions.take_losses())
"""


def loaded(folder: Path, text: str, name: str) -> UserFunction:
    """A function that this process can call."""
    (folder / "mine.py").write_text(text)
    library = Library(folder / "modules", (folder,), anywhere=True)
    create = CreateFunction((name,), f"mine.{name}", "PYTHON", position=Position(1, 1))
    function = library.load(create, {})
    library.activate([function])
    return function


def test_a_task_needs_nothing_but_its_plan(tmp_path: Path) -> None:
    """Neither the file of the module, nor the copy of it, nor anything of this process."""
    user = loaded(tmp_path, MODULE, "strict")
    data = pickle.dumps(TaskFunctions.of_driver([user.identity]))
    POOL.stop()
    shutil.rmtree(tmp_path / "modules")
    (tmp_path / "mine.py").unlink()
    command = [sys.executable, "-c", AWAY]
    done = subprocess.run(command, input=data, capture_output=True, cwd=ROOT, check=False)
    assert done.stdout.split() == [b"[", b"2,", b"3,", b"null", b"]", b"[]"], done.stderr


# ---- jobs of an engine ---------------------------------------------------------------------------


def machine(partitions: int, frames: Any = RepeatedFrames) -> Machine:
    return replace(THIS, spark=lambda config: Staged(partitions, frames))


@pytest.fixture
def life(tmp_path: Path) -> Any:
    """An engine whose graphs run in tasks."""
    life = Life(tmp_path, "spark", machine(2))
    life.engine.broker.create_topic("events")
    life.engine.submit("tables", EVENTS)
    yield life
    life.engine.close()


@pytest.mark.parametrize("cores", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_what_dice_gave_is_what_they_gave(tmp_path: Path, cores: int) -> None:
    """In each attempt of a task, and behind a kill, also on another number of cores."""
    world = rolling(Life(tmp_path, "spark", machine(2)))
    before = world.tell()
    assert len(before["scalar"]) == 6
    assert len(before["table"]) >= 6
    world.die()
    world.life.machine = machine(cores)
    world.life.opened(world.callables)
    assert world.taken == before
    world.life.engine.close()


KILLING = """
import os, pathlib, random, signal
from sqlengine import udf

@udf(deterministic=False)
def roll(rule: str, host: str) -> str:
    mark = pathlib.Path("{mark}")
    if rule == "kill" and not mark.exists():
        mark.write_text(str(os.getpid()))
        os.kill(os.getppid(), signal.SIGKILL)
    return f"{os.getppid()} {os.getpid()} {random.random()} {__file__}"
"""


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_dice_on_spark_whose_worker_dies(spark: Any, tmp_path: Path) -> None:
    """Its task runs again. The others keep a process for each worker, whose sources are Spark's."""
    taken: list[str] = []
    callables = {"take": lambda rows: taken.extend(map(str, rows.to_pylist()))}
    life, mark = Life(tmp_path, "spark"), tmp_path / "mark"
    (tmp_path / "functions" / "killing.py").write_text(KILLING.replace("{mark}", str(mark)))
    life.engine.close()
    life.opened(callables)
    life.engine.broker.create_topic("events", 2)
    life.engine.submit("tables", EVENTS)
    target = table("rule STRING, said STRING", "take", "callable")
    create = "CREATE TEMPORARY FUNCTION roll AS 'killing.roll' LANGUAGE PYTHON;"
    insert = "INSERT INTO target SELECT MAX(rule), roll(host, MAX(rule)) FROM events GROUP BY host"
    dice = "INSERT INTO target SELECT rule, roll(rule, host) FROM events"
    life.engine.submit("dice", create + target + dice)
    life.engine.submit("counts", create + target + insert)
    for number in range(4):
        rule = "kill" if number == 1 else "live"
        life.tell(*[(f"{rule}", f"{number}{n}") for n in range(5)])
        eventually(lambda: len(taken) == 10 * (number + 1), lambda: str(taken))  # noqa: B023
    words = [row.split("'said': '")[1].split() for row in taken]
    workers = {tuple(said[:2]) for said in words}
    assert (
        len({pid for _, pid in workers}) == len({parent for parent, _ in workers}) == len(workers)
    )
    assert not any(said[3].startswith(str(tmp_path)) for said in words)
    eventually(lambda: not psutil.pid_exists(int(mark.read_text())))
    before = list(taken)
    die(life)
    taken.clear()
    life.opened(callables)
    assert taken == before
    life.engine.close()


@pytest.mark.parametrize("first", ["spark", pytest.param("embedded", marks=pytest.mark.slow)])
def test_what_was_answered_elsewhere_is_missed(tmp_path: Path, first: Any) -> None:
    """A server that was killed goes on where it was: elsewhere the dice would fall otherwise."""
    world = rolling(Life(tmp_path, first, machine(2)))
    before = world.tell()
    world.die()
    world.life.target = "embedded" if first == "spark" else "spark"
    with pytest.raises(ServiceError, match="cannot be repeated"):
        world.life.opened(world.callables)
    world.life.engine.close()
    world.taken.clear()
    world.life.target = first
    world.life.opened(world.callables)
    assert world.taken == before
    world.life.engine.close()


CRASHING = """
import os
from sqlengine import udf

@udf
def dies(rule: str) -> str:
    if rule.startswith("bad"):
        os._exit(7)
    return rule + "{}"
"""


@pytest.mark.slow
def test_a_function_that_crashes_too_often_ends_its_job_and_no_other(life: Life) -> None:
    """And a new version of its module takes the place of the old one."""

    def module(text: str) -> None:
        (life.folder / "functions" / "crashing.py").write_text(text)

    def job(name: str) -> str:
        create = "CREATE TEMPORARY FUNCTION dies AS 'crashing.dies' LANGUAGE PYTHON;"
        target = table("rule STRING, host STRING", "page")
        insert = "INSERT INTO target SELECT {}, host FROM events"
        return create + functions("page") + target + insert.format(name)

    module(CRASHING.format("!"))
    life.engine.submit("dying", job("dies(rule)"))
    life.engine.submit("other", job("rule || '?'"))
    # Its graph is another one, and what went wrong is forgiven with it.
    aside = job("dies(rule)").replace("FROM events", "FROM events WHERE rule = 'none'")
    life.engine.submit("aside", "SET 'execution.target' = 'embedded';" + aside)
    life.tell(("a", "h1"), ("bad", "h2"))
    eventually(lambda: {"a! h1", "a? h1", "bad? h2"} == set(life.lines()))
    life.tell(*[(f"bad{n}", "h") for n in range(12)])
    eventually(lambda: life.engine.job("dying").state is JobState.FAILED)
    reason = life.engine.job("dying").reason or ""
    assert reason.startswith("function crashing.dies is switched off after 10 failures")
    life.tell(("b", "h1"))
    eventually(lambda: "b? h1" in life.lines())
    assert life.engine.job("other").state is JobState.RUNNING
    module(CRASHING.format("+"))
    life.engine.submit("dying", job("dies(rule)"))
    life.tell(("c", "h1"))
    eventually(lambda: "c+ h1" in life.lines())


# ---- answers of one part of an epoch -------------------------------------------------------------


def test_the_first_attempt_counts(tmp_path: Path) -> None:
    """Also where two run at a time, and where one has died half-way."""
    roll = ScalarKernel(loaded(tmp_path, VARYING, "roll"), (STRING,), DOUBLE)

    def rolls() -> Iterator[object]:
        for text in "aba":
            yield roll([Vector(pa.array([text]))], 1).array(1).to_pylist()

    def attempt(part: str = "1-000-of-002", **changes: bool) -> Iterator[object]:
        step = Step(1, 1, 0, 0, 2, TaskState(), **changes)
        return TaskAnswers(tmp_path.as_uri(), step, part).behind(rolls())

    first, second = attempt(), attempt()
    begun = [next(first)]
    with pytest.raises(AnsweredElsewhere):
        next(second)
    third = list(attempt())
    assert third[:1] == begun
    assert list(attempt(answered=True)) == third
    with pytest.raises(AnsweredElsewhere):
        next(first)
    with pytest.raises(ServiceError, match="epoch 1 cannot be repeated"):
        next(attempt("1-001-of-002", answered=True))
