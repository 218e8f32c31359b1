"""One life of a server whose jobs run in subtasks, in two instances that are killed, stopped and ended
while rows come, with jobs beside them that read and write files and SQLite."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

from sqlengine.engine import Engine
from sqlengine.machine import THIS
from tests.recovery import cluster_workload as workload
from tests.recovery.cluster_workload import IN_PARTS, LINES_PER_BATCH, ROWS_PER_BATCH, SHARDS
from tests.recovery.crash_injection import (
    CrashingDisk,
    CrashInjector,
    LastChange,
    PlannedCrash,
    inject_crashes_into_databases,
    stores,
)
from tests.recovery.crashing_instance import InstanceProcesses
from tests.recovery.fork_server import ForkServer
from tests.recovery.outcome import folded, lake, lines_of, records, rows_of
from tests.recovery.server_users import Batches, ServerUsers, Setting, prepare

SESSION_MS = 2000
INSTANCES, PARTS = 2, 4


@dataclass(frozen=True)
class Instances:
    """Those of a life: who forks them, what is known of them, how many of them are killed from
    outside, some stopped, before they are left alone (those that are `spared` die by themselves);
    where none is, some are ended. The server's planned crash does not begin before its parent has let it
    (`InstanceProcesses.let_go`)."""

    fork_server: ForkServer
    processes: InstanceProcesses
    spared: frozenset[int] = frozenset()
    kills: int = 0
    crash: PlannedCrash | None = None


def live(
    setting: Setting,
    say: int,
    *,
    batches: Batches | None,
    last: LastChange,
    instances: Instances | None = None,
) -> None:
    """One life: see `ServerUsers.live`. Without instances nothing is in subtasks."""
    injector = CrashInjector(None, last)
    config = replace(
        setting.config(),
        checkpoint_ms=100,
        checkpoint_rows=300,
        session_ms=SESSION_MS,
        isolation=False,
    )
    machine = replace(
        THIS, disk=CrashingDisk(injector), stores=lambda folder: stores(injector, folder)
    )
    if instances is not None:
        injector.expect(instances.crash, lambda: instances.processes.free)
        config = replace(config, instances=INSTANCES, parts=PARTS)
        machine = replace(machine, spawn=instances.fork_server.spawn)
    inject_crashes_into_databases(injector)
    setting.folder.mkdir(parents=True, exist_ok=True)
    engine = Engine(config, machine)
    prepare(engine, setting.folder, IN_PARTS)
    engine.start()
    _ClusterUsers(engine, setting, say, instances).live(batches)
    engine.close()


class _ClusterUsers(ServerUsers):
    """Who uses a server while it lives, and who kills its instances."""

    fed, pause_s = "readings", 0.1
    lines_per_batch, batches_per_file = LINES_PER_BATCH, workload.BATCHES_PER_FILE

    def __init__(
        self, engine: Engine, setting: Setting, say: int, instances: Instances | None
    ) -> None:
        super().__init__(engine, setting, say, IN_PARTS)
        self._instances = instances

    def works(self) -> Iterable[tuple[Callable[[], None], float]]:
        assert self._instances is not None
        yield self.operator.change, 0.05
        yield self.operator.care, 0.1
        yield partial(self._disturb, self._instances), 0.0

    def rows(self, number: int) -> Iterator[tuple[str, int, list[bytes]]]:
        numbers = range(number * ROWS_PER_BATCH, (number + 1) * ROWS_PER_BATCH)
        for shard in range(SHARDS):
            yield (
                "readings",
                shard,
                [json.dumps(workload.reading(shard, n)).encode() for n in numbers],
            )
        for shard in range(SHARDS):
            yield "bids", shard, [workload.encoded_bid(shard, n) for n in numbers]

    def _disturb(self, instances: Instances) -> None:
        """An instance is killed, ended, or stopped: for a moment, or for longer than its
        session."""
        time.sleep(self.chance.uniform(0.05, 0.5))
        if instances.kills and len(instances.processes.killed) >= instances.kills:
            return
        owners = {i.pid for i in self.engine.instances.views() if i.subtasks}
        living = [
            f
            for f in instances.fork_server.forked
            if f.code is None and f.number not in instances.spared
        ]
        living = [f for f in living if f.pid in owners or instances.kills]
        if not living:
            return
        forked = self.chance.choice(living)
        draw = self.chance.random()
        if draw < 0.2 or not instances.kills:
            forked.terminate()
        elif draw < 0.8:
            instances.processes.mark(forked.number)
            forked.kill()
        else:
            forked.signal(signal.SIGSTOP)
            time.sleep(SESSION_MS / 1000 * self.chance.choice((0.1, 1.2, 2.0)))
            forked.signal(signal.SIGCONT)

    def missing(self, batches: int) -> str | None:
        wanted = _wanted(batches)
        for found in (self._appended, self._counted, self._beside):
            there = found()
            few = {name: (n, wanted[name]) for name, n in there.items() if n < wanted[name]}
            if few:
                return f"of {few} there is less than there must be"
        return None

    def _appended(self) -> Mapping[str, int]:
        """How many records have come out."""
        broker = self.engine.broker
        names = ("found", "minutes", "pairs", "hot", "drawn", "tailed", "echoed")
        return {n: sum(broker.end_offset(n, s) for s in range(IN_PARTS.topics[n])) for n in names}

    def _counted(self) -> Mapping[str, int]:
        """How many rows counts tell of."""
        broker = self.engine.broker
        counted = {
            n: sum(json.loads(v)["n"] for v in broker.read_latest(n).values())
            for n in ("sums", "known")
        }
        ticks = sum(json.loads(v)["n"] for v in records(broker, "ticks", 0))
        grown = sum(json.loads(row)["n"] for row in folded(records(broker, "grown", 0)))
        return {**counted, "ticks": ticks, "grown": grown}

    def _beside(self) -> Mapping[str, int]:
        """How many rows files and tables have."""
        hosts, seen = (rows_of(self.folder / "app.db", table) for table in ("hosts", "seen"))
        lines = len(lines_of(self.folder))
        return {
            "lines": lines,
            "lake": len(lake(self.folder)),
            "hosts": sum(int(str(n)) for _, n in hosts),
            "seen": len(seen),
        }


@cache
def _wanted(batches: int) -> Counter[str]:
    """How much must have come out after so many batches."""
    numbers = batches * ROWS_PER_BATCH
    every = [workload.reading(shard, n) for shard in range(SHARDS) for n in range(numbers)]
    ids = {r["id"] for r in every}
    bids = [workload.bid(shard, n) for shard in range(SHARDS) for n in range(numbers)]
    over = (numbers * 500 - 500 - 2_000 - (1_500 if (numbers - 1) % 5 == 3 else 0)) // 10_000
    tests: dict[str, Callable[[int], bool]] = {
        "found": lambda a: a > 6, "known": lambda a: a > 6, "hosts": lambda a: a > 6, "hot": lambda a: a > 3,
        "drawn": lambda a: a > 8, "lines": lambda a: a == 7, "lake": lambda a: a < 3, "seen": lambda a: a in (2, 9),
        "sums": lambda a: True, "grown": lambda a: True, "ticks": lambda a: True,
    }  # fmt: skip
    wanted = Counter(
        {
            name: sum(map(test, (int(str(r["amount"])) for r in every)))
            for name, test in tests.items()
        }
    )
    wanted["minutes"] = len(
        {(r["host"], ms // 10_000) for r in every if (ms := _ms(r)) // 10_000 < over}
    )
    wanted["pairs"] = sum(bid is not None and bid[0] in ids for bid in bids)
    wanted["tailed"] = wanted["echoed"] = batches * LINES_PER_BATCH
    return wanted


def _ms(row: dict[str, object]) -> int:
    hours, minutes, seconds = str(row["ts"])[11:].split(":")
    return int((int(hours) * 3600 + int(minutes) * 60 + float(seconds)) * 1000 + 0.5)
