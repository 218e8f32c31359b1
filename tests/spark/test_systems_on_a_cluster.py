"""Jobs without end on a cluster of Spark read and write tables of other systems: what is killed costs no
row and doubles none."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlengine.client import Client
from tests.service.harness import User
from tests.spark.cluster_life import BATCHES, Server
from tests.spark.standalone import Standalone, kill
from tests.spark.systems import System, sums, system
from tests.support import eventually

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]
_PATIENCE_S = 400
SUMS = """
CREATE TABLE sums (k BIGINT, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'sums', 'format' = 'json', 'upsert' = 'true', 'topic.auto-create' = 'true');
"""
COUNTS = "INSERT INTO sums SELECT MOD(id, 7), COUNT(*), SUM(v) FROM taken GROUP BY MOD(id, 7)"


@pytest.fixture(scope="module")
def cluster(spark_is_there: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


class _Lives:
    """A server on the cluster over one folder, and the jobs that read and write a system."""

    def __init__(self, cluster: Standalone, folder: Path, system: System) -> None:
        self._cluster, self._folder, self._system = cluster, folder, system
        self._number = 0
        self._serve()
        self.user.submit("tables", system.tables + SUMS)
        for name, text in {**system.jobs, "counts": COUNTS}.items():
            self.user.submit(name, text)

    def _serve(self) -> None:
        self._number += 1
        self.server = Server(self._folder, self._cluster.url, self._number, (), BATCHES)
        client = Client(f"http://127.0.0.1:{self.server.port()}", origin="rest")
        if self._number == 1:
            self.user = User(client)
        self.user.client = client

    def kill(self, kind: str) -> None:
        if kind == "server":
            self.server.kill()
            self._serve()
        elif kind == "worker":
            self._cluster.replace_worker(0)
        else:
            found = self._cluster.executors if kind == "executor" else self._cluster.python_workers
            kill(eventually(found, self.said)[0])

    def await_rows(self) -> None:
        """Waits until what is given is what was taken, in the rows and in the sums."""
        eventually(
            lambda: not self._wrong(), lambda: f"{self._wrong()}\n{self.said()}", _PATIENCE_S
        )

    def _wrong(self) -> object:
        taken, given = self._system.taken(), self._system.given()
        if taken != given:
            return f"missing {list((taken - given).items())[:5]}, besides {list((given - taken).items())[:5]}"
        found = {r["k"]: (r["n"], r["total"]) for r in self.user.read("sums")}
        if found != sums(taken):
            return f"{found} instead of {sums(taken)}"
        return self._system.wrong()

    def epochs_on_spark(self) -> int:
        """Returns how many epochs Spark has run."""
        graphs: Any = self.user.client.get("/api/v1/spark")["graphs"]
        return sum(graph["epochs"] for graph in graphs)

    def said(self) -> str:
        """What the server has logged."""
        return self.server.said()[-3000:]


@pytest.mark.parametrize("name", ["kafka", "rocketmq", "postgresql", "mariadb"])
def test_nothing_is_lost_or_twice(cluster: Standalone, tmp_path: Path, name: str) -> None:
    chance = random.Random(name)
    with system(name, tmp_path / "system") as found:
        (tmp_path / "server").mkdir()
        lives = _Lives(cluster, tmp_path / "server", found)
        try:
            found.write(200)
            lives.await_rows()
            assert lives.epochs_on_spark() > 0
            for kind in ("worker", "server", "python", "executor"):
                found.write(500)
                time.sleep(chance.uniform(0, 1.5))
                lives.kill(kind)
            found.write(100)
            lives.await_rows()
        finally:
            lives.server.kill()
