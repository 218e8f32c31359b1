"""One life: servers, clients and faults in an order that a seed decides, then calm, then the look
at what came out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import Random

from tests.simulation import checks, workload
from tests.simulation.clients import (
    BEGIN,
    Bridge,
    Caretaker,
    Change,
    Client,
    Operator,
    Reader,
    Writer,
)
from tests.simulation.database import databases
from tests.simulation.network import Network
from tests.simulation.node import Node, config_of
from tests.simulation.replay import check_replay
from tests.simulation.world import Death, World

MOST_TURNS = 3_000
DAY_MS = 86_400_000


class Failed(Exception):
    """What a life should have given it has not; the cause tells what."""

    def __init__(self, life: Life, seed: int, cause: BaseException) -> None:
        again = f"python -m tests.simulation --seed {seed}"
        super().__init__(f"seed {seed}: {type(cause).__name__}: {cause} ({again})")
        self.life = life


@dataclass
class Life:
    """`nodes`: one server, or two that exchange over a topic."""

    world: World
    network: Network
    nodes: list[Node]
    clients: list[Client]
    operators: dict[str, Operator]
    events: list[list[workload.Event]]
    late: bool
    turns: int = 0
    full: dict[str, str] = field(default_factory=dict)
    holding: bool = False

    def run(self) -> None:
        for node in self.nodes:
            node.start()
        while self.turns < MOST_TURNS and not all(c.done for c in self.clients):
            self.turn()
        for _ in range(self.world.chance.randint(0, 20)):
            self.turn()
        self.calm()

    def databases(self) -> AbstractContextManager[None]:
        """Within, whoever connects to SQLite gets that of the server whose folder it is in."""
        return databases({node.name: node.database for node in self.nodes})

    @property
    def moved(self) -> bool:
        """Whether a job went on in another graph, with what it had in the first."""
        return any(self.world.met[f"{how} of a job"] for how in ("restart", "isolate", "merge"))

    @property
    def lossy(self) -> bool:
        """Whether something that was acknowledged may be gone: power was lost, and not each append
        was synced."""
        return self.nodes[0].config.fsync == "interval" and "loss of power" in self.world.met

    def turn(self) -> None:
        """Whatever comes next."""
        self.turns += 1
        world, chance = self.world, self.world.chance
        world.now_ms += chance.choice((0, 1, 5, 40))
        draw = chance.random()
        if self.full and draw < 0.05:
            self._relieve(chance.choice(self.nodes))
        elif draw < 0.015:
            self._fault()
        elif draw < 0.30 and self.network.flying:
            self.network.deliver()
        elif draw < 0.55:
            chance.choice(self.clients).act()
        else:
            self._go_on(chance.choice(self.nodes))

    def _go_on(self, node: Node) -> None:
        if node.engine is None:
            if self.world.happens(0.3):
                node.start()
            return
        possible = node.possible()
        if possible:
            with node.may_crash():
                self.world.chance.choice(possible)()

    def _fault(self) -> None:
        world, chance = self.world, self.world.chance
        node = chance.choice(self.nodes)
        of_instances = ("stop", "stop", "end") if node.processes else ()
        match chance.choice(("clock", "full", "full", "slow", "restart", *of_instances)):
            case "stop":
                world.met["stopped instance"] += 1
                process = chance.choice(node.processes)
                process.resumes_at = (
                    world.up_ms + node.config.session_ms * chance.choice((1, 4, 20)) // 2
                )
            case "end":
                world.met["instance ended in good order"] += 1
                chance.choice(node.processes).terminate()
            case "restart":
                world.met["restart in good order"] += node.engine is not None
                node.stop()
            case "clock":
                by = chance.choice((60_000, DAY_MS, -60_000, -DAY_MS))
                world.met["clock jump"] += 1
                world.note("world", "clock", "jumps", by)
                world.now_ms += by
                world.jumped_ms += by
            case "full":
                self._fill(node, "/", "full disk")
            case _:
                self._fill(node, f"/{node.name}/lines", "slow sink")

    def _fill(self, node: Node, path: str, fault: str) -> None:
        """Without space, or with space again."""
        self.full[node.name] = path
        self.world.met[fault] += 1
        self.world.note("world", fault, node.name)
        node.disk.full = lambda p: p.startswith(path)
        node.short = True

    def _relieve(self, node: Node) -> None:
        if self.full.pop(node.name, None) is not None:
            self.world.note("world", "space", node.name)
            node.disk.full = lambda _: False
            node.short = False

    def meanwhile(self) -> None:
        """An instance is held up: the others do a lot. One at a time is."""
        if not self.holding:
            self.holding = True
            for _ in range(self.world.chance.randint(1, 30)):
                self.turn()
            self.holding = False

    def calm(self) -> None:
        """No more faults: all that was begun comes to its end."""
        self.world.note("world", "calm")
        self.network.calm = True
        for node in self.nodes:
            self._relieve(node)
            node.crash, node.kills, node.meanwhile = None, 0, None
            for process in node.processes:
                process.calm()
            if node.engine is None:
                node.start()
        self.rest()

    def rest(self) -> None:
        """Until nobody has anything to do."""
        quiet = 0
        for _ in range(2_000):
            self.world.now_ms += 10
            while self.network.flying:
                self.network.deliver()
            waiting = [c for c in self.clients if not c.done]
            for client in waiting:
                client.act()
            busy = [n.settle() for n in self.nodes]
            problems = [
                n.engine.graphs.problem
                for n in self.nodes
                if n.engine is not None and n.engine.graphs.problem
            ]
            quiet = 0 if waiting or any(busy) or self.network.flying or problems else quiet + 1
            # Parts hear of each other by turns.
            if quiet == (3 if self.world.kind == "parts" else 1):
                return
        raise AssertionError(f"it does not come to rest: {problems}")


def make(seed: int) -> Life:
    world = World(seed)
    chance, network = world.chance, Network(world)
    fsync = chance.choice(("none", "none", "epoch", "epoch", "interval"))
    if world.kind == "parts" and fsync == "interval":  # it is not enough for parts
        fsync = "epoch"
    large = chance.random() < 0.15
    kills = chance.choice((2, 3, 4, 5) if large else (1, 1, 2))
    first = Node(world, "a", config_of(world, "a", fsync), workload.TOPICS, kills)
    nodes = [first]
    numbers = [chance.randint(*((10, 40) if large else (2, 8))) for _ in range(2)]
    late = chance.random() < 0.3
    events = [
        [workload.event(shard, n, late=late) for n in range(numbers[shard])] for shard in range(2)
    ]
    clients: list[Client] = [
        Writer(
            world,
            network,
            first,
            f"feeder-{shard}",
            "events",
            shard,
            _batches(world, events[shard]),
            lambda: operator.has_begun,
        )
        for shard in range(2)
    ]
    operator = Operator(
        world,
        first,
        deque(
            _changes_in_parts(world, fsync)
            if world.kind == "parts"
            else _changes(world, fsync, large)
        ),
    )
    clients += [operator, Reader(world, first, "alerts"), Caretaker(world, first)]
    operators = {"a": operator}
    if fsync != "interval" and chance.random() < (0.4 if large else 0.1):
        second = Node(
            world, "b", config_of(world, "b", fsync), workload.AFAR_TOPICS, chance.choice((1, 2))
        )
        nodes.append(second)
        afar = Operator(
            world, second, deque([Change("tables", workload.AFAR), Change("count", workload.COUNT)])
        )
        clients += [
            afar,
            Bridge(world, network, first, second, ("alerts", "arrived")),
            Caretaker(world, second),
        ]
        operators["b"] = afar
    life = Life(world, network, nodes, clients, operators, events, late)
    if world.kind == "parts":
        first.meanwhile, first.process_kills = life.meanwhile, chance.choice((1, 2, 3, 5))
    return life


def _batches(world: World, events: list[workload.Event]) -> list[list[bytes]]:
    batches, left = [], [e.line() for e in events]
    while left:
        size = world.chance.randint(1, 6)
        batches.append(left[:size])
        left = left[size:]
    return batches


def _changes(world: World, fsync: str, large: bool) -> list[Change]:
    """The tables first; then jobs in any order, replaced and withdrawn among each other."""
    chance = world.chance
    names = chance.sample(
        sorted(workload.JOBS), chance.randint(2, 5) if large else chance.randint(1, 2)
    )
    if {"second", "joined"} & set(names) and "first" not in names:
        names.append("first")
    changes = [Change(name, workload.JOBS[name]) for name in names]
    changes.insert(chance.randint(0, len(changes)), Change("hot", workload.HOT.format(1)))
    for number in range(chance.randint(0, 3 if large else 1)):
        place = [c.name for c in changes].index("hot")
        changes.insert(
            chance.randint(place + 1, len(changes)), Change("hot", workload.HOT.format(number + 2))
        )
    for number in range(chance.randint(0, 2) if large else chance.random() < 0.3):
        name, least = f"extra{number}", chance.randint(0, 5)
        place = chance.randint(0, len(changes))
        changes.insert(place, Change(name, workload.EXTRA.format(name=name, least=least)))
        if chance.random() < 0.5:
            changes.insert(chance.randint(place + 1, len(changes)), Change(name, None))
    _add_moves(world, changes, large)
    return [Change("tables", _tables(fsync)), *changes]


def _tables(fsync: str) -> str:
    """Files are as safe against a loss of power as topics."""
    return workload.TABLES.replace("{fsync}", "none" if fsync == "none" else "epoch")


def _changes_in_parts(world: World, fsync: str) -> list[Change]:
    """Jobs that can be divided, and now and then one that cannot; most of them before there is
    anything to read."""
    chance = world.chance
    names = chance.sample(workload.DIVIDED, chance.randint(2, 4))
    if {"second", "joined"} & set(names) and "first" not in names:
        names.append("first")
    if chance.random() < 0.3:
        names.append(chance.choice(("files", "stored", "added")))
    changes = [Change("hot", workload.HOT.format(1)), Change("kept", workload.KEPT.format(1))]
    changes += [Change(name, workload.JOBS[name]) for name in names]
    chance.shuffle(changes)
    later = [
        Change(name, text.format(n + 2))
        for n in range(chance.randint(0, 3))
        for name, text in workload.REPLACED.items()
    ]
    later += [
        Change(f"late{n}", workload.LATE.format(name=f"late{n}"))
        for n in range(chance.randint(0, 2))
    ]
    if chance.random() < 0.3:
        later.append(Change("hot", None, "roll back"))
    later += [Change(chance.choice(names), None, "restart") for _ in range(chance.randint(0, 1))]
    chance.shuffle(later)
    if chance.random() < 0.4:
        name, place = chance.choice(names), chance.randint(0, len(later))
        later[place:place] = [Change(name, None, "isolate"), Change(name, None, "merge")]
    if chance.random() < 0.3:
        later.append(Change("hot", "renamed", "rename"))
    return [Change("tables", _tables(fsync)), *changes, BEGIN, *later]


def _add_moves(world: World, changes: list[Change], large: bool) -> None:
    """Jobs are stopped and go on, are rolled back, and get other names."""
    chance = world.chance
    if chance.random() < 0.3:
        place = 1 + max(n for n, c in enumerate(changes) if c.name == "hot")
        changes.insert(chance.randint(place, len(changes)), Change("hot", "renamed", "rename"))
    if chance.random() < 0.3:
        changes.insert(_while_there(chance, changes, "hot"), Change("hot", None, "roll back"))
    for _ in range(chance.randint(0, 3) if large else chance.random() < 0.3):
        name = chance.choice(
            [c.name for c in changes if c.how == "submit" and c.name[:5] != "extra"]
        )
        changes.insert(_while_there(chance, changes, name), Change(name, None, "restart"))
    if chance.random() < 0.3:
        name = chance.choice(
            [c.name for c in changes if c.how == "submit" and c.name[:5] != "extra"]
        )
        place = _while_there(chance, changes, name)
        changes.insert(place, Change(name, None, "isolate"))
        changes.insert(_while_there(chance, changes, name, place), Change(name, None, "merge"))


def _while_there(
    chance: Random, changes: list[Change], name: str, behind: int | None = None
) -> int:
    """A place behind another one, or the first text of a job, before it gets another name."""
    found = [n for n, c in enumerate(changes) if c.name == name]
    last = next((n for n in found if changes[n].how == "rename"), len(changes))
    return chance.randint((found[0] if behind is None else behind) + 1, last)


def live(seed: int, look: Callable[[Life], None] | None = None) -> Life:
    """The life of a seed, looked at. Raises Failed with what is wrong as its cause; the life is its
    `life`."""
    life = make(seed)
    try:
        with life.databases():
            _live(life, look)
    except (Exception, Death) as error:
        raise Failed(life, seed, error) from error
    finally:
        for node in life.nodes:
            node.abandon()
    return life


def _live(life: Life, look: Callable[[Life], None] | None) -> None:
    life.run()
    if life.lossy:
        checks.check_lossy(life)
    else:
        checks.check(life)
        if life.world.seed % 3 == 0 and not life.moved and life.world.kind != "parts":
            check_replay(life.nodes[0])
    if look is not None:
        look(life)
