"""Data folders that are damaged, or cannot be used: a message with the remedy, and the rest runs."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.damaged import goes_on, leave, survives
from tests.service.harness import Process
from tests.support import ROOT, eventually


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("base") / "data"
    leave(data)
    return data


@pytest.fixture
def data(base: Path, tmp_path: Path) -> Path:
    shutil.copytree(base, tmp_path / "data")
    return tmp_path / "data"


def refusal(data: Path, wrapper: Sequence[str] = ()) -> str:
    """What a server says that does not start."""
    with Process(data, wrapper=wrapper) as process:
        code = eventually(lambda: process.process.poll() is not None and [process.process.poll()])
        said = process.said()
    assert code == [1], said
    assert "Traceback" not in said
    assert "detail: " in said
    return said


def runs(data: Path) -> str:
    """What a server says that starts, and whose jobs go on."""
    with Process(data) as process:
        goes_on(process.user())
        assert process.end(signal.SIGTERM) == 0
        assert "Traceback" not in process.said()
        return process.said()


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def to_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


@pytest.mark.slow
@pytest.mark.parametrize(
    "topic",
    ["_jobs", *(pytest.param(t, marks=pytest.mark.slow) for t in ("_epochs", "_dead_letters"))],
)
def test_a_damaged_topic_of_the_system_is_repaired_by_the_command_that_is_named(
    data: Path, topic: str
) -> None:
    flip(data / f"topics/{topic}.topic/topic.json")
    said = refusal(data)
    (command,) = re.findall(r"sql (topic repair \S+ --data \S+)", said)
    done = subprocess.run(
        [sys.executable, "-m", "sqlengine.cli", *shlex.split(command)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"{topic}: its options were lost" in done.stdout
    runs(data)


def test_a_damaged_topic_is_told_with_its_remedy(data: Path) -> None:
    """By the topic, the log and the jobs that use it."""
    flip(data / "topics/events.topic/topic.json")
    remedy = f"sql topic repair events --data {data}"
    with Process(data) as process:
        user = process.user()
        reason = eventually(lambda: user.job("all")["reason"])
        listed: Any = user.client.get("/api/v1/topics")
        topics = {t["name"]: t for t in listed["topics"]}
        assert process.end(signal.SIGTERM) == 0
        assert remedy in reason
        assert remedy in topics["events"]["damage"]
        told = [line for line in process.said().splitlines() if "is left out" in line]
        assert [remedy in line for line in told] == [True]


def test_a_damaged_store_is_given_up_by_the_command_that_is_named(data: Path) -> None:
    (path,) = (data / "graphs/main").glob("*.sst")
    flip(path)
    said = refusal(data)
    assert str(data / "graphs/main") in said
    (command,) = re.findall(r"mv '[^']*' '[^']*'", said)
    subprocess.run(shlex.split(command), check=True)
    runs(data)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("format.json", to_folder),
        ("graphs/main/CURRENT", to_folder),
        ("graphs/main", to_file),
        ("graphs", to_file),
        ("lock", to_folder),
        ("topics/_jobs.topic/0", to_file),
        ("topics", to_file),
    ],
)
def test_what_is_in_the_place_of_a_file_is_named(
    data: Path, name: str, damage: Callable[[Path], None]
) -> None:
    damage(data / name)
    assert str(data / name.removesuffix("/CURRENT")) in refusal(data)


@pytest.mark.slow
def test_a_cache_is_no_obstacle(data: Path) -> None:
    to_folder(data / "plans.sqlite")
    assert "plans.sqlite' is not used" in runs(data)


def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    assert str(tmp_path / "data") in refusal(tmp_path / "data")


MOUNTS = {
    "read-only": "mount --bind {0} {0} && mount -o remount,ro,bind {0}",
    "no inode": "mount -t tmpfs -o nr_inodes=12 none {0}",
    "no space": "mount -t tmpfs -o size=64k none {0}",
}


@pytest.mark.parametrize("kind", MOUNTS)
def test_a_disk_that_takes_nothing_is_named(data: Path, kind: str) -> None:
    mount = f'{MOUNTS[kind].format(shlex.quote(str(data)))} && exec "$@"'
    wrapper = ["unshare", "-m", "sh", "-c", mount, "sh"]
    if subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount anything")
    said = refusal(data, wrapper)
    assert str(data) in said
    assert ("Read-only" if kind == "read-only" else "No space") in said


@pytest.mark.parametrize("seed", range(6))
def test_bits_that_flip_are_told_or_do_no_harm(
    base: Path, tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    survives(base, tmp_path, seed, lambda: caplog.records)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 250))
def test_many_bits_that_flip(
    base: Path, tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    survives(base, tmp_path, seed, lambda: caplog.records)
