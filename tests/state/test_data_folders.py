"""Data folders of other versions: an older one is migrated when a server opens it, and its jobs go
on exactly; a newer one is refused."""

from __future__ import annotations

import json
import logging
import re
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

import sqlengine
from parser.errors import ServiceError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.engine import Engine
from sqlengine.engine.dead_letters import DeadLetterFilter
from sqlengine.snapshots import checkpoints
from sqlengine.state.rocks_store import RocksStore
from sqlengine.system import data_folder
from sqlengine.system.data_folder import STEPS, VERSION, Step
from sqlengine.system.disk import Disk
from tests.state.kept_life import AFTER, before, events, opened, results
from tests.support import ROOT

KEPT = sorted((Path(__file__).parent / "kept").glob("*.tar.gz"))
# The numbers of what is within a folder, by the folder's own number.
NUMBERS = {
    2: {
        "broker/topics.py FORMAT": 1,
        "broker/storage/head.py FORMAT": 2,
        "cluster/control_log.py FORMAT": 1,
        "control/folder_records.py FORMAT": 1,
        "engine/views/retired_counts.py FORMAT": 1,
        "executors/epochs.py FORMAT": 1,
        "executors/nondeterministic_calls.py FORMAT": 1,
        "executors/wire.py BATCH_FORMAT": 4,
        "jobs/job.py FORMAT": 1,
        "operators/match/runs.py FORMAT": 1,
        "snapshots/checkpoints.py LAYOUT": 6,
        "snapshots/checkpoints.py POSITION_FORMAT": 3,
        "snapshots/migrations.py FORMAT": 1,
        "snapshots/savepoint_files.py FORMAT": 1,
        "state/keys.py BUCKET_HASH_VERSION": 1,
        "state/store.py STORE_FORMAT": 1,
        "state/table.py STATE_FORMAT": 1,
    }
}


def unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / "data"


def number(data: Path) -> object:
    return json.loads((data / "format.json").read_text())


Uninterrupted: TypeAlias = Mapping[str | None, object]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Uninterrupted:
    """The results of a server that lives all the life of the kept ones and is never upgraded, by
    where the stopped job begins again."""
    found: dict[str | None, object] = {}
    for begin in (None, "latest"):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path_factory.mktemp("uninterrupted"))
            engine = before(killed=False)
            assert engine is not None
            found[begin] = goes_on(engine, begin)
            engine.close()
    return found


def begin_of(archive: Path) -> str | None:
    """Where the stopped job begins again: versions before folders had numbers kept no position."""
    return "latest" if "unnumbered" in archive.name else None


def goes_on(engine: Engine, begin: str | None) -> object:
    """The results after the life behind the upgrade, in which the stopped job is started."""
    engine.start_job("stopped", begin=begin)
    events(engine, AFTER)
    return results(engine)


@pytest.mark.parametrize("archive", KEPT, ids=lambda p: p.name)
def test_the_jobs_of_a_kept_folder_go_on_exactly(
    archive: Path,
    uninterrupted: Uninterrupted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    data = unpack(archive, tmp_path)
    monkeypatch.chdir(tmp_path)
    old = json.loads((data / "format.json").read_text()) if (data / "format.json").exists() else {}
    with caplog.at_level(logging.INFO, "sqlengine"):
        engine = opened()
    said = [r.message for r in caplog.records if "from format" in r.message]
    assert said == [
        f"data folder {data}: from format {n} to {n + 1} ({STEPS[n].doc})"
        for n in range(old.get("format", 1), data_folder.FORMAT)
    ]
    assert number(data) == {"format": data_folder.FORMAT, "version": VERSION}
    try:
        begin = begin_of(archive)
        assert goes_on(engine, begin) == uninterrupted[begin]
        assert [v.version for v in engine.history("window")] == [1, 2]
        assert len(list(engine.dead_letters.read(DeadLetterFilter()))) == 1
        assert engine.broker.committed("readers", "out") == {0: 1}
        assert [s.job for s in engine.savepoints.all() if hasattr(s, "job")] == ["saved"]
    finally:
        engine.close()
    caplog.clear()
    with caplog.at_level(logging.INFO, "sqlengine"):
        opened().close()
    assert not [r for r in caplog.records if "from format" in r.message], "once"


def test_a_newer_folder_is_refused_with_both_versions(tmp_path: Path) -> None:
    data = tmp_path / "data"
    EmbeddedBroker(data).close()
    assert number(data) == {"format": data_folder.FORMAT, "version": VERSION}
    (data / "format.json").write_text('{"format": 99, "version": "7.1.0"}')
    with pytest.raises(ServiceError) as refused:
        EmbeddedBroker(data)
    assert refused.value.message == (
        f"data folder '{data}' has format 99 of version 7.1.0; this is version {VERSION}, which"
        f" reads formats up to {data_folder.FORMAT}"
    )
    assert "start version 7.1.0 or a later one" in str(refused.value.hint)
    (data / "format.json").write_text("{")
    with pytest.raises(ServiceError, match=r"format\.json' is damaged"):
        EmbeddedBroker(data)


def test_a_folder_without_a_step_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    EmbeddedBroker(tmp_path / "data").close()
    monkeypatch.setattr(data_folder, "FORMAT", data_folder.FORMAT + 1)
    with pytest.raises(ServiceError, match="cannot migrate") as refused:
        EmbeddedBroker(tmp_path / "data")
    assert "between that one and this one" in str(refused.value.hint)


def relayout(fails: list[bool]) -> Callable[[Path, Disk], None]:
    """A step for a layout with the next number. The first time it dies behind its first change."""

    def run(folder: Path, disk: Disk) -> None:
        store = RocksStore(folder / "graphs" / "main")
        head = store._db.get(b"head")
        assert isinstance(head, bytes)
        about = json.loads(head)
        about["position"]["layout"] = data_folder.FORMAT + 100
        store._db.put(b"head", json.dumps(about).encode())
        store.close()
        if not fails:
            fails.append(True)
            raise ServiceError("died in its midst")

    return run


def test_a_raised_layout_needs_a_step_which_may_be_interrupted(
    uninterrupted: Uninterrupted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = unpack(KEPT[0], tmp_path)
    monkeypatch.chdir(tmp_path)
    opened_before = data_folder.FORMAT
    monkeypatch.setattr(data_folder, "FORMAT", opened_before + 1)
    monkeypatch.setattr(checkpoints, "LAYOUT", opened_before + 101)
    step = Step("other tables", relayout([]))
    monkeypatch.setattr(data_folder, "STEPS", {**STEPS, opened_before: step})
    with pytest.raises(ServiceError, match="died in its midst"):
        opened()
    assert number(data) == {"format": opened_before, "version": VERSION}
    engine = opened()
    try:
        assert number(data) == {"format": opened_before + 1, "version": VERSION}
        begin = begin_of(KEPT[0])
        assert goes_on(engine, begin) == uninterrupted[begin]
    finally:
        engine.close()
    backup = data / f"backup-format-{opened_before}"
    (kept,) = backup.glob("topics/_jobs.topic/0/*.seg")
    with tarfile.open(KEPT[0]) as tar:
        original = tar.extractfile(f"data/{kept.relative_to(backup)}")
        assert original is not None
        assert kept.read_bytes() == original.read()
    assert list(backup.glob("graphs/main/*.sst")), "the small files of before are kept"


def test_a_number_within_rises_with_the_number_of_the_folder() -> None:
    """Whoever raises one of these raises `FORMAT` of `sqlengine/system/data_folder.py`, adds a step
    there, and a line of numbers here."""
    found = {}
    for name in NUMBERS[data_folder.FORMAT]:
        file, constant = name.split()
        text = (ROOT / "sqlengine" / file).read_text()
        match = re.search(rf"^{constant}\b.*?= (\d+)", text, re.MULTILINE)
        assert match is not None, name
        found[name] = int(match[1])
    assert found == NUMBERS[data_folder.FORMAT]
    assert list(STEPS) == list(range(1, data_folder.FORMAT))
    assert sqlengine.__version__ == VERSION
