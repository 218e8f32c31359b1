"""The simulated disk does what the machine's does, and keeps of a loss of power what was synced."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlengine.system.disk import MACHINE, Disk
from tests.simulation.disk import SimulatedDisk
from tests.simulation.world import World

NAMES = st.sampled_from(["x", "y", "f/x", "f/g", "h"])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("make"), NAMES),
        st.tuples(st.just("folder"), NAMES),
        st.tuples(st.just("remove"), NAMES),
        st.tuples(st.just("clear"), NAMES),
        st.tuples(st.just("rename"), NAMES, NAMES),
        st.tuples(st.just("write"), NAMES, st.binary(max_size=9), st.integers(0, 12)),
        st.tuples(st.just("cut"), NAMES, st.integers(0, 12)),
    ),
    max_size=25,
)


def _do(disk: Disk, root: Path, operation: tuple[object, ...]) -> str:
    what, name, *rest = operation
    path = root / str(name)
    try:
        match what, rest:
            case "folder", _:
                disk.make_folder(path)
            case "remove", _:
                disk.remove(path)
            case "clear", _:
                disk.remove_folder(path)
            case "rename", [str() as new]:
                disk.rename(path, root / new)
            case _:
                file = disk.open(path, make=what == "make")
                if what == "write":
                    assert isinstance(rest[0], bytes)
                    disk.pwrite(file, rest[0], int(str(rest[1])))
                elif what == "cut":
                    disk.truncate(file, int(str(rest[0])))
                disk.close(file)
    except OSError:
        return "error"
    return "done"


def _content(disk: Disk, folder: Path) -> dict[str, object]:
    return {n: _content(disk, folder / n) if disk.is_folder(folder / n) else disk.read(folder / n) for n in disk.names(folder)}  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(operations=OPERATIONS)
def test_it_does_what_the_machines_disk_does(tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[object, ...]]) -> None:  # fmt: skip
    real, ours = tmp_path_factory.mktemp("disk"), Path("/")
    simulated = SimulatedDisk(World(0), "a", lambda: False)
    for operation in operations:
        assert _do(MACHINE, real, operation) == _do(simulated, ours, operation), operation
    assert _content(MACHINE, real) == _content(simulated, ours)


@given(seed=st.integers(0, 2**32), wild=st.booleans())
def test_a_loss_of_power_takes_what_was_not_synced_and_nothing_else(seed: int, wild: bool) -> None:
    disk = SimulatedDisk(World(seed), "a", lambda: False)
    file = disk.open(Path("/x"), make=True)
    disk.pwrite(file, b"synced", 0)
    disk.sync(file)
    disk.sync_folder(Path("/"))
    for number in range(3):
        disk.pwrite(file, b"more%d" % number, 6 + 5 * number)
    disk.close(disk.open(Path("/y"), make=True))
    disk.lose_power(wild=wild)
    content = disk.read(Path("/x"))
    assert content.startswith(b"synced")
    assert all(a in (b, 0) for a, b in zip(content, b"syncedmore0more1more2", strict=False))
    assert disk.names(Path("/")) in (["x"], ["x", "y"])
