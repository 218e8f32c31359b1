"""A standalone cluster of Spark runs the service: what is killed there costs nothing and doubles
nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster_life import BATCHES, PLACED, Life, living, workload
from tests.spark.standalone import Standalone
from tests.support import ROOT, eventually

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


# Starts sessions as a server does, and says what keeps them from it.
STARTS = """
import json, os, sys
from pathlib import Path
from parser.errors import SqlError
from sqlengine.config import Cluster
from sqlengine.executors.spark.session import OwnSpark
for folder, conf in json.loads(sys.argv[2]):
    os.environ.pop("PYSPARK_PYTHON", None)
    spark = OwnSpark(Path("spark.log"), Cluster(sys.argv[1], conf), Path(folder))
    try:
        spark.session()
        print(f"{spark.partitions()} partitions")
        spark.close()
    except SqlError as error:
        print(error)
"""


def test_what_is_missing_is_said(spark_is_there: Any, tmp_path: Path) -> None:
    """By a server that starts, with the machine; a cluster that has all of it is joined."""
    (tmp_path / "cluster").mkdir()
    venv.create(tmp_path / "bare", symlinks=True, with_pip=False)
    small, soon = (
        {"spark.executor.memory": "512m"},
        "spark.scheduler.maxRegisteredResourcesWaitingTime",
    )
    cases: list[tuple[str, dict[str, str]]] = [
        ("tasks", {"spark.executor.memory": "64g", soon: "5s"}),
        ("tasks", {**small, "spark.pyspark.python": str(tmp_path / "bare" / "bin" / "python")}),
        # Another folder in each process.
        ("/proc/self/cwd/tasks", small),
        (str(tmp_path / "tasks"), small),
    ]
    with Standalone(tmp_path / "cluster") as cluster:
        command = [sys.executable, "-c", STARTS, cluster.url, json.dumps(cases)]
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    memory, library, folder, joined = done.stdout.splitlines()
    assert f"no executors of {cluster.url} came within 5 s" in memory
    assert "the engine does not run in Spark's executors" in library
    assert "bare/bin/python on" in library
    assert "No module named" in library
    assert "Spark's executors do not see the folder /proc/self/cwd/tasks" in folder
    assert joined == "2 partitions"


def live(life: Life, kinds: list[str], between: int) -> None:
    """Writes all events, with kills in between."""
    step = len(life.load.events) // len(kinds)
    for number, kind in enumerate(kinds, start=1):
        life.write(step)
        life.kill(kind)
        if number % between == 0:
            life.await_rows()
    life.write(len(life.load.events))
    life.end_time()
    life.await_rows(ended=True)


def test_a_few_kills(spark_is_there: Any, tmp_path: Path) -> None:
    kinds = ["executor", "python", "worker", "server", "python", "executor"]
    with living(tmp_path, workload("network_connection"), 1) as life:
        live(life, kinds, between=3)
        assert life.lives == 2


def test_the_cluster_starts_again(spark_is_there: Any, tmp_path: Path) -> None:
    """Its new master knows nothing of the server, which notices that and registers anew."""
    patience = "spark.scheduler.maxRegisteredResourcesWaitingTime=45s"
    with living(tmp_path, workload("pipe_created"), 3, patience) as life:
        life.write(1000)
        life.await_rows()
        life.cluster.start_again()
        life.write(1000)
        life.await_rows()
        assert life.lives == 1
        assert "waits for executors of spark://" in life.server.said()
        assert "Spark starts again" in life.server.said()


FUNCTION = """
from sqlengine import udf

@udf
def twice(n: int) -> int:
    return 2 * n
"""
CALLS = """CREATE TEMPORARY FUNCTION twice AS 'mine.twice' LANGUAGE PYTHON;
CREATE TABLE answered (n BIGINT, m BIGINT) WITH ('connector' = 'topic', 'topic' = 'answered', 'format' = 'json');
INSERT INTO answered SELECT e_n, twice(e_n) FROM events WHERE e_k <> 'end'"""


WATCHING = """
import datetime as dt
from dataclasses import dataclass, field

from sqlengine import MapView, ProcessContext, TableRow, process_function

WINDOW_S = 10


@dataclass
class Seen:
    total: int = 0
    of: MapView[str, int] = field(default_factory=MapView)


@process_function(output="ROW<what STRING, n BIGINT, total BIGINT>")
class watched:
    State = Seen

    def eval(self, ctx: ProcessContext[Seen], input: TableRow):
        state, start = ctx.state, ctx.time.replace(second=ctx.time.second // WINDOW_S * WINDOW_S)
        end = start + dt.timedelta(seconds=WINDOW_S)
        state.total += 1
        state.of[str(end)] = state.of.get(str(end), 0) + 1
        ctx.set_timer(end - dt.timedelta(milliseconds=1), str(end))
        yield "row", input.e_n, state.total

    def on_timer(self, ctx: ProcessContext[Seen], name: str):
        yield name, ctx.state.of.pop(name), len(ctx.state.of)
"""
WATCH = """CREATE TEMPORARY FUNCTION watched AS 'watching.watched' LANGUAGE PYTHON;
CREATE TABLE told (k STRING, what STRING, n BIGINT, total BIGINT)
WITH ('connector' = 'topic', 'topic' = 'told', 'format' = 'json');
INSERT INTO told SELECT e_k, what, n, total FROM watched(
  input => TABLE events PARTITION BY e_k, on_time => DESCRIPTOR(e_ts), uid => 'watched') WHERE e_k <> 'end'"""


def test_a_process_function_and_what_holds_it_die(spark_is_there: Any, tmp_path: Path) -> None:
    """Its state, the entries of its views and its timers count each row once."""
    with living(tmp_path, workload("network_connection"), 9) as life:
        functions = life.folder / "data" / "functions"
        functions.mkdir(exist_ok=True)
        (functions / "watching.py").write_text(WATCHING)
        life.user.topic("told")
        submit = partial(life.user.submit, "watch", WATCH)
        # It is refused while the graph is busy.
        eventually(lambda: life.user.try_to(submit) is None, life.said, 300)
        live(life, ["python", "server", "python"], between=2)
        totals, windows = life.counts()
        rows = [(k, "row", total) for k, count in totals.items() for total in range(1, count + 1)]
        wanted = Counter([*rows, *((k, end, n) for (k, end), n in windows.items())])

        def told() -> Counter[tuple[str, str, int]]:
            return Counter(
                (r["k"], r["what"], r["total"] if r["what"] == "row" else r["n"])
                for r in life.user.read("told")
            )

        said = lambda: f"besides {told() - wanted}, missing {wanted - told()}"  # noqa: E731
        eventually(lambda: told() == wanted, said, 300)
        numbers = sorted(r["n"] for r in life.user.read("told") if r["what"] == "row")
        assert numbers == list(range(life.written))
        assert life.lives == 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BATCHES, PLACED], ids=["batches", "placed"])
def test_functions_and_what_holds_them_die(
    spark_is_there: Any, tmp_path: Path, kind: tuple[str, ...]
) -> None:
    """Of micro-batches, and of instances that last: those are placed anew."""
    with living(tmp_path, workload("network_connection"), 7, kind=kind) as life:
        functions = life.folder / "data" / "functions"
        functions.mkdir(exist_ok=True)
        (functions / "mine.py").write_text(FUNCTION)
        life.user.topic("answered")
        life.user.submit("calls", CALLS)
        live(life, ["executor", "python", "worker", "executor"], between=2)
        wanted = [(n, 2 * n) for n in range(life.written)]
        eventually(lambda: life.called() == wanted, life.said)
        if kind is PLACED:
            assert life.placed_again() > 0


# Five lives, since none may take as long as fifty kills do on a busy machine.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "table"),
    [
        (2, "process_creation"),
        (3, "network_connection"),
        (4, "file_event"),
        (5, "pipe_created"),
        (6, "process_creation"),
    ],
)
def test_fifty_kills(spark_is_there: Any, tmp_path: Path, seed: int, table: str) -> None:
    kinds = ["executor"] * 4 + ["python"] * 3 + ["worker"] + ["server"] * 2
    with living(tmp_path, workload(table), seed) as life:
        life.chance.shuffle(kinds)
        live(life, kinds, between=5)
        assert (life.kills.total(), life.lives) == (10, 3)
