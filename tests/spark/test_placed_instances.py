"""Instances in tasks of Spark: tasks, workers and instances are killed while rows come and jobs
change, and each row counts once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from parser.errors import OptionError, ServiceError, SqlError, UnsupportedError
from sqlengine.cluster import spark_placement
from sqlengine.cluster.instance_groups import InstanceView
from sqlengine.config import Cluster, Config, Target
from sqlengine.engine import Engine
from sqlengine.machine import THIS
from sqlengine.system.durability import Checkpoints
from tests.hostile.certificates import MISSING, Authority, Pair
from tests.spark.task_processes import TaskProcesses
from tests.spark.test_engine_on_spark import (
    RULE,
    TABLES,
    TOTALS,
    WINDOWS,
    World,
    await_totals,
    check,
    rows,
)
from tests.support import eventually

INSTANCES, PARTS = 2, 4
JOBS = {"totals": TOTALS.format("TRUE"), "windows": WINDOWS, "all": RULE.format(0)}
LOW = "SET 'execution.target' = 'spark'; SET 'execution.latency' = 'low';"

FUNCTION = """
def twice(v: int) -> int:
    return 2 * v
"""
USE_FUNCTION = """CREATE TEMPORARY FUNCTION twice AS 'mine.twice' LANGUAGE PYTHON;
INSERT INTO alerts SELECT 'twice', twice(id) FROM events /*+ OPTIONS('scan.startup.mode' = 'latest-offset') */"""


@dataclass
class Placed(World):
    """An engine whose instances run in tasks."""

    shards: int = 4
    checkpoints: Checkpoints = "topic"
    instances: int = INSTANCES
    settings: dict[str, str] = field(default_factory=dict)
    tls: Pair | None = None

    def open(self, target: Target = "embedded", kept: Path | None = None) -> Engine:
        config = Config(
            data=self.folder,
            target=target,
            instances=self.instances,
            parts=PARTS,
            instances_on="spark",
            checkpoints=self.checkpoints,
            session_ms=2000,
            checkpoint_ms=500,
            settings=self.settings,
            tls_certificate=None if self.tls is None else self.tls.certificate,
            tls_key=None if self.tls is None else self.tls.key,
        )
        engine = Engine(config, self.machine)
        for topic, shards in (("events", self.shards), ("alerts", 1), ("windows", 1)):
            engine.broker.create_topic(topic, shards, if_not_exists=True)
        engine.start()
        return engine


def running(engine: Engine, count: int = INSTANCES) -> list[InstanceView]:
    """The instances, once so many of them have all parts among them."""

    def all_parts() -> list[InstanceView]:
        found = [v for v in engine.instances.views() if v.state == "running" and v.subtasks]
        parts = sum(len(v.subtasks) for v in found)
        return found if len(found) >= count and parts == PARTS else []

    return eventually(all_parts, lambda: engine.instances.views())


def worker_of(view: InstanceView) -> int:
    """The process of Spark that holds an instance."""
    status = Path(f"/proc/{view.pid}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def kill(pid: int | None) -> None:
    assert pid is not None
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# ---- what happens


def lose_a_task(engine: Engine) -> None:
    kill(worker_of(running(engine)[0]))


def silence_an_instance(engine: Engine) -> None:
    """So long that others have its parts, and it is killed."""
    pid = running(engine)[0].pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: pid not in [view.pid for view in engine.instances.views()])


def lose_all_tasks(engine: Engine) -> None:
    for pid in map(worker_of, running(engine)):
        kill(pid)


def await_rule(engine: Engine, world: Placed, least: int) -> None:
    """Until the rule has seen rows that come now."""
    first = len(world.events)
    world.write(engine, 20)
    wanted = {e["id"] for e in world.events[first:] if e["v"] >= least}

    def found() -> set[int]:
        return {r["id"] for r in rows(engine, "alerts") if r["rule"] == str(least)}

    eventually(lambda: wanted <= found())


def live(world: Placed, happens: list[Callable[[Engine], None]]) -> None:
    """Rows come before, while and after all that happens, and with each a rule comes and takes
    effect."""
    engine = world.open()
    engine.submit("tables", TABLES)
    for name, text in JOBS.items():
        engine.submit(name, text)
    for number, thing in enumerate(happens, 1):
        world.write(engine, 40)
        thing(engine)
        world.write(engine, 40)
        engine.submit("rule", RULE.format(number))
        await_rule(engine, world, number)
    engine.close()
    engine = world.open()
    world.write(engine, 40)
    try:
        check(engine, world)
        eventually(lambda: {engine.graphs.of(job).name for job in JOBS} == {"shared"})
    finally:
        engine.close()


@pytest.mark.slow
def test_rows_count_once_through_lost_tasks(tmp_path: Path) -> None:
    """All of it but Spark itself; the state in folders, too."""
    tasks = TaskProcesses()
    world = Placed(tmp_path, replace(THIS, spark=lambda config: tasks), checkpoints="rocksdb")
    live(world, [lose_a_task, silence_an_instance, lose_all_tasks])
    assert not tasks.workers


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore")
def test_rows_count_once_through_lost_tasks_on_spark(spark: Any, tmp_path: Path) -> None:
    live(Placed(tmp_path, THIS), [lose_a_task, lose_all_tasks])


# ---- which jobs


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    world = Placed(
        tmp_path / "data", replace(THIS, spark=lambda config: TaskProcesses(1)), instances=1
    )
    engine = world.open()
    engine.submit("tables", TABLES)
    yield engine
    engine.close()


def test_jobs_of_low_latency_run_in_parts(engine: Engine) -> None:
    engine.submit("totals", LOW + TOTALS.format("TRUE"))
    assert engine.job("totals").graph == "shared"
    assert "in graph 'shared', in 4 parts on Spark" in engine.explain("totals")
    assert engine.move("totals", "spark").status == "unchanged"
    (view,) = running(engine, 1)
    assert (view.host, view.state) == (os.uname().nodename, "running")
    with pytest.raises(OptionError, match=r"'execution\.latency' cannot be 'least'"):
        engine.submit("other", LOW.replace("low", "least") + RULE.format(1))
    with pytest.raises(UnsupportedError, match="isolation groups do not run on Spark"):
        engine.submit("other", LOW + "SET 'job.isolation' = 'team';" + RULE.format(1))
    files = "CREATE TABLE f (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'f', 'format' = 'csv');"
    with pytest.raises(UnsupportedError, match="the job cannot run in parts on Spark") as refused:
        engine.submit("other", files + LOW + "INSERT INTO f SELECT id FROM events")
    assert "'filesystem'" in str(refused.value.detail)


def test_without_instances_there_no_latency_is_low(tmp_path: Path) -> None:
    engine = Engine(Config(data=tmp_path), replace(THIS, spark=lambda config: TaskProcesses()))
    for topic in ("events", "alerts", "windows"):
        engine.broker.create_topic(topic)
    engine.submit("tables", TABLES)
    with pytest.raises(UnsupportedError, match="needs instances on Spark") as refused:
        engine.submit("totals", LOW + TOTALS.format("TRUE"))
    assert refused.value.hint == "start the server with --instances N --instances-on spark"
    engine.submit("totals", LOW.replace("spark", "embedded") + TOTALS.format("TRUE"))
    assert engine.job("totals").graph == "main"
    engine.close()


@pytest.mark.slow
def test_the_default_of_a_server_may_be_spark(tmp_path: Path) -> None:
    """Jobs that say nothing are of low latency where the server says so. Instances on other machines
    have nothing of its disk."""
    machine = replace(THIS, spark=lambda config: TaskProcesses(elsewhere=True))
    world = Placed(tmp_path, machine, settings={"execution.latency": "low"})
    engine = world.open("spark")
    engine.submit("tables", TABLES)
    engine.submit("totals", TOTALS.format("TRUE"))
    world.write(engine, 40)
    await_totals(engine, world)
    assert engine.job("totals").graph == "shared"
    (world.folder / "functions").mkdir()
    (world.folder / "functions" / "mine.py").write_text(FUNCTION)
    with pytest.raises(SqlError, match=r"the sources of a function, .* are gone"):
        engine.submit("mine", USE_FUNCTION)
    engine.close()


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.slow
def test_instances_of_a_server_with_tls_have_it_too(tmp_path: Path) -> None:
    machine = replace(THIS, spark=lambda config: TaskProcesses())
    world = Placed(tmp_path / "data", machine, tls=Authority(tmp_path / "authority").own)
    engine = world.open()
    engine.submit("tables", TABLES)
    engine.submit("totals", TOTALS.format("TRUE"))
    world.write(engine, 40)
    await_totals(engine, world)
    assert len(running(engine)) == INSTANCES
    engine.close()


def test_an_instance_that_gets_no_core_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ends at once when it is told to."""
    monkeypatch.setattr(spark_placement, "_WAITS_S", 0.1)
    tasks = TaskProcesses(cores=1)
    engine = Placed(tmp_path, replace(THIS, spark=lambda config: tasks)).open()

    def problems() -> list[str | None]:
        return sorted((v.problem for v in engine.instances.views()), key=str)

    wanted = [None, "it waits for a core of Spark: give Spark more of them"]
    eventually(lambda: problems() == wanted, problems)
    engine.close()
    assert tasks.attempts == 1


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "too few tasks": (
        {"cluster": Cluster("local[1]")},
        "2 instances need as many tasks at once, 'local[1]' has 1",
    ),
    "no disk": (
        {"cluster": Cluster("spark://127.0.0.1:7077"), "checkpoints": "rocksdb"},
        "instances on 'spark://127.0.0.1:7077' keep nothing on disk",
    ),
    "another machine": (
        {"cluster": Cluster("spark://db.example:7077")},
        "the workers of 'spark://db.example:7077' cannot reach '127.0.0.1'",
    ),
    "no master's name": (
        {"cluster": Cluster("yarn")},
        "the workers of 'yarn' cannot reach '127.0.0.1'",
    ),
    "no address": ({"instances_host": "0.0.0.0"}, "'0.0.0.0' is the address of no machine"),
    "not an address of this machine": (
        {"instances_host": "192.0.2.1"},
        "instances cannot reach the server at '192.0.2.1'",
    ),
}


@pytest.mark.parametrize(("options", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    """Before a job runs."""
    config = replace(
        Config(data=tmp_path, instances=2, instances_on="spark", checkpoints="topic"), **options
    )
    with pytest.raises(ServiceError) as refused:
        Engine(config, replace(THIS, spark=lambda config: TaskProcesses())).start()
    assert refused.value.message == message
    assert refused.value.hint
