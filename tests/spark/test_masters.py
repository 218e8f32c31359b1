"""What keeps a cluster of Spark from running jobs is said before, or instead of, a wait without
end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from parser.errors import SqlError
from sqlengine.cli import cli
from sqlengine.config import Cluster
from sqlengine.executors.spark.boundary import lost_task
from sqlengine.executors.spark.cluster.checks import LIBRARIES, judge
from sqlengine.executors.spark.cluster.executors import ExecutorWatch, await_executors
from sqlengine.executors.spark.cluster.master import address_to, is_local, refuse_connect
from sqlengine.executors.spark.cluster.settings import session_settings
from sqlengine.executors.spark.cluster.shipping import write_engine
from sqlengine.executors.spark.java import does_not_start, require_spark
from sqlengine.executors.spark.session import OwnSpark
from sqlengine.executors.spark.state_files import create
from sqlengine.executors.spark.tasks.rules import MachineShare
from sqlengine.executors.wire import is_whole
from sqlengine.state.keys import BUCKETS
from tests.spark.staged import Staged


def refused(work: Callable[[], object]) -> str:
    """The error of what is refused, with its detail and hint."""
    with pytest.raises(SqlError) as caught:
        work()
    return f"{caught.value.message}; {caught.value.detail}; {caught.value.hint}"


# ---- the master ----------------------------------------------------------------------------------


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    ("master", "words"),
    [
        ("http://host:7077", "Spark has no master 'http://host:7077'"),
        ("local[x]", "Spark has no master 'local[x]'"),
        ("spark://host", "'host' is no HOST:PORT"),
        ("spark://host:seven", "'host:seven' is no HOST:PORT"),
        ("spark://host:7077/x", "'host:7077/x' is no HOST:PORT"),
        (
            "sc://host:15002",
            "Spark Connect cannot run the engine: it hides the executors; 'sc://host",
        ),
        ("spark://127.0.0.1:FREE", "Connection refused"),
        ("spark://no-such-host.invalid:7077", "cannot be reached"),
    ],
)
def test_a_master_that_is_none(master: str, words: str) -> None:
    master = master.replace("FREE", str(free_port()))
    assert words in refused(lambda: address_to(master))


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"SPARK_REMOTE": "sc://host"}, "SPARK_REMOTE=sc://host in the environment asks for it"),
        ({"SPARK_API_MODE": "Connect"}, "unset SPARK_API_MODE: write --master spark://HOST:7077"),
        ({"SPARK_CONNECT_MODE": "1"}, "Spark Connect cannot run the engine"),
    ],
)
def test_an_environment_that_asks_for_connect(environment: dict[str, str], words: str) -> None:
    assert words in refused(lambda: refuse_connect(environment))
    refuse_connect({"SPARK_API_MODE": "classic", "SPARK_CONNECT_MODE": "0", "SPARK_HOME": "/s"})


@pytest.mark.spark
def test_java_is_not_started_for_a_master_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subprocess.Popen", None)
    session = OwnSpark(None, Cluster(f"spark://127.0.0.1:{free_port()}")).session
    assert "Connection refused" in refused(session)


def test_executors_connect_to_where_the_master_is_reached_from() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        assert address_to(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}") == "127.0.0.1"
    assert address_to(None) == address_to("local[2,4]") == "127.0.0.1"
    assert address_to("yarn") is address_to("k8s://https://host:443") is None
    assert [is_local(m) for m in (None, "local", "local[*]", "yarn")] == [True, True, True, False]


def test_settings_of_users_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/x")
    given = {"spark.driver.host": "10.0.0.1", "spark.driver.extraJavaOptions": "-Da=b"}
    settings = session_settings(given, 2, "1g", "127.0.0.1")
    assert settings["spark.driver.host"] == "10.0.0.1"
    assert "spark.driver.bindAddress" not in settings
    assert settings["spark.driver.extraJavaOptions"] == "-Xss4m -Da=b"
    assert session_settings({}, 2, "1g", "10.0.0.2")["spark.driver.bindAddress"] == "10.0.0.2"
    assert "spark.driver.host" not in session_settings({}, 2, "1g", None)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("executor.memory=4g", "Spark has no setting 'executor.memory'"),
        ("spark.master=local", "--master names it"),
        ("spark.sql.adaptive.enabled=true", "the state of several partitions"),
        ("spark.submit.deployMode=cluster", "the driver is this process"),
    ],
)
def test_settings_that_are_refused(tmp_path: Path, setting: str, words: str) -> None:
    script = tmp_path / "s.sql"
    script.write_text("SELECT 1;")
    command = ["run", str(script), "--on", "spark", "--spark-conf", setting]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 1
    assert words in " ".join(done.stderr.split())


# ---- Java ----------------------------------------------------------------------------------------


@pytest.mark.spark
def test_java_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert f"there is no program '{tmp_path}/jdk/bin/java'" in refused(require_spark)
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Spark needs Java, which is not installed" in refused(require_spark)


@pytest.mark.spark
def test_java_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first words of what does not start."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\necho 'UnsupportedClassVersionError: class file version 61.0' >&2; exit 1\n"
    )
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java.parents[1]))
    run = f"""
from pathlib import Path
from sqlengine.executors.spark.session import OwnSpark
try:
    OwnSpark(Path({str(tmp_path / "spark.log")!r})).session()
except Exception as error:
    print(error, error.hint)
"""
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True)
    assert "Spark does not start" in done.stdout
    assert "class file version 61.0" in done.stdout
    assert "Java 17 or newer" in done.stdout


def test_something_else_listens_where_the_master_should(tmp_path: Path) -> None:
    said = "ERROR StandaloneSchedulerBackend: … Reason: All masters are unresponsive! Giving up."
    (tmp_path / "spark.log").write_text(f"WARNING: Using x\n{said}\n")
    error = does_not_start(RuntimeError("4"), tmp_path / "spark.log", "spark://m:80")
    assert error.message == "the master of Spark does not answer: spark://m:80"


# ---- executors -----------------------------------------------------------------------------------


def test_without_executors_a_session_is_given_up() -> None:
    """Not before, and not while nobody waits for one."""
    count, told, given_up = [0], list[str | None](), list[float]()
    watch = ExecutorWatch("spark://m:1", lambda: count[0], lambda: given_up.append(now), 60.0)
    for now in range(100):
        watch.look(now)
    with watch.job(told.append):
        for now in range(100, 150):
            watch.look(now)
        count[0] = 1
        watch.look(150)
        count[0] = 0
        for now in range(151, 215):
            watch.look(now)
    waits = "waits for executors of spark://m:1"
    assert told == [None, waits, None, waits]
    assert given_up == [211]


MADE = """CREATE TABLE made (n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '9');
CREATE TABLE dropped (n INT) WITH ('connector' = 'blackhole');
INSERT INTO dropped SELECT n FROM made"""


def test_jobs_that_are_told_in_the_same_way_end_apart() -> None:
    watch = ExecutorWatch("spark://m:1", lambda: 0, lambda: None, 60.0)
    told: list[str | None] = []
    tell = told.append
    first, second = watch.job(tell), watch.job(tell)
    with first:
        second.__enter__()
    watch.look(0)
    watch.look(20)
    second.__exit__(None, None, None)
    assert told == [None, None, "waits for executors of spark://m:1"]


def test_executors_that_do_not_come() -> None:
    assert "no executors of spark://m:1 came within 0.3 s" in refused(
        lambda: await_executors(lambda: 0, "spark://m:1", 0.3)
    )
    counts = iter([0, 1, 1, 2] + [3] * 20)
    await_executors(lambda: next(counts), "spark://m:1", 60)
    assert next(counts) == 3


def test_executors_that_come_and_go_move_no_state() -> None:
    class Changing(OwnSpark):
        cores = 2

        def session(self) -> Any:
            return Staged(self.cores)

    spark, seen = Changing(), list[int]()
    for spark.cores in (2, 4, 3, 4, 500):
        seen.append(spark.partitions())
    assert seen == [2, 4, 4, 4, BUCKETS]


FOUND = {
    "host": "m1",
    "python": "/usr/bin/python3",
    "wrote": "/data/tasks/.seen-1",
    "engine": "/tmp/sqlengine-0f.zip/sqlengine/x.pyc",
    **dict.fromkeys(LIBRARIES, "1.0"),
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"fault": "ModuleNotFoundError: No module named 'hyperscan'"},
            "/usr/bin/python3 on m1: Mod",
        ),
        ({"engine": "/usr/lib/sqlengine/x.py"}, "run another version of the engine"),
        ({"unseen": "[Errno 2] No such file"}, "do not see the folder /data/tasks; m1: [Errno 2]"),
    ],
)
def test_executors_that_cannot_run_tasks(change: dict[str, str], words: str) -> None:
    here = dict.fromkeys(LIBRARIES, "1.0")
    judge([FOUND], "sqlengine-0f.zip", here)
    assert words in refused(lambda: judge([FOUND, FOUND | change], "sqlengine-0f.zip", here))


def test_libraries_that_differ_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    judge([FOUND, FOUND | {"pyarrow": "0.9"}], "0f.zip", dict.fromkeys(LIBRARIES, "1.0"))
    assert [r.getMessage() for r in caplog.records] == [
        "pyarrow is 1.0 here, but /usr/bin/python3 on m1 has 0.9"
    ]


@pytest.mark.parametrize(
    "said",
    [
        'Cannot run program "/x/python": error=2, No such file or directory',
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than 3.11",
        "ModuleNotFoundError: No module named 'hyperscan'",
    ],
)
def test_executors_that_come_later_and_cannot(said: str) -> None:
    error = lost_task(
        f"Job aborted:\nTask 1 failed: x.y.Error: {said}\n\tat org.apache.spark.X\nDriver stacktrace:"
    )
    assert error.message == "the Python of Spark's executors cannot run the engine"
    assert error.detail == said
    assert "spark.pyspark.python" in str(error.hint)


def test_a_share_of_memory_is_that_of_the_machine() -> None:
    cores = len(os.sched_getaffinity(0))
    assert MachineShare(1 << 30).bytes() == MachineShare(1 << 30, cores).bytes()
    assert MachineShare(1 << 62).bytes() == 256 << 20


# ---- what executors get --------------------------------------------------------------------------


@pytest.mark.slow
def test_the_zip_is_the_engine(tmp_path: Path) -> None:
    """Also where nothing else of it is installed, with its connectors."""
    file = write_engine(tmp_path)
    assert write_engine(tmp_path).name == file.name
    run = f"""
import sys
sys.path.insert(1, {str(file)!r})
import sqlengine.executors.spark.executor as engine
from sqlengine.connectors import registry
from sqlengine.system.plugins import CONNECTORS, points
assert {file.name!r} in engine.__file__
assert {file.name!r} in sys.modules[registry.__name__].__file__
print(*sorted(p.load().__module__ for p in points(CONNECTORS).values()))
# An instance that is placed there plans jobs.
from pathlib import Path
from sqlengine.config import Config
from sqlengine.engine import Engine
server = Engine(Config(data=Path("data")))
server.start()
server.submit("made", {MADE!r})
print(server.job("made").state.value)
server.close()
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", run], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    found = done.stdout.split()
    assert "sqlengine.connectors.datagen.connector" in found
    assert found[-1] in ("running", "finished")


def test_two_attempts_write_a_file_at_once(tmp_path: Path) -> None:
    """Whoever reads it meanwhile finds all of it."""
    body = b"x" * 500_000
    data = body + zlib.crc32(body).to_bytes(4, "little")
    with ThreadPoolExecutor(4) as threads:
        for number in range(20):
            uri = (tmp_path / str(number) / "a.state").as_uri()
            written = [threads.submit(create, uri, data) for _ in range(4)]
            path = tmp_path / str(number) / "a.state"
            while not all(w.done() for w in written):
                assert not path.exists() or is_whole(path.read_bytes())
            for done in written:
                done.result()
            assert [p.name for p in path.parent.iterdir()] == ["a.state"]
