"""The watched folder, with real files, real notifications and real time."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from watchdog.observers.api import BaseObserver

from parser.errors import SqlError
from sqlengine.control.folder import POLL_S, FolderChange, FolderWatcher
from sqlengine.control.scripts import MAX_BYTES, job_name
from tests.support import HELD_UP, PATIENCE_S, eventually, write_in_parts

QUIET_MS = 60
ONE, TWO, THREE = "SELECT 1;", "SELECT 2;", "SELECT 3;"


class Recorder:
    """What a server would do with the changes: keep the text of each job."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        self.changes: list[FolderChange] = []
        self.failures = 0

    def apply(self, change: FolderChange) -> None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the engine is busy")
        for name in [*change.removed, *change.renamed]:
            del self.jobs[name]
        self.jobs |= {name: file.text for name, file in change.upserts.items()}
        self.changes.append(change)

    def wait(self, condition: Callable[[], bool]) -> None:
        eventually(
            condition, lambda: f"jobs {self.jobs}, changes {self.changes}: what was waited for"
        )

    def becomes(self, **jobs: str) -> None:
        self.wait(lambda: self.jobs == jobs)

    @property
    def messages(self) -> list[str]:
        return [error.message for change in self.changes for _, error in change.problems]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


@pytest.fixture
def watcher(folder: Path, recorder: Recorder) -> Iterator[FolderWatcher]:
    watcher = FolderWatcher(folder, recorder.apply, quiet_ms=QUIET_MS, rescan_s=10 * PATIENCE_S)
    recorder.apply(watcher.scan())
    watcher.start()
    time.sleep(QUIET_MS / 1000)
    yield watcher
    watcher.stop()


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".sql")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def settle() -> None:
    time.sleep(QUIET_MS / 1000 * 5)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a.sql", "a"),
        ("team/alerts/x-1.sql", "team.alerts.x-1"),
        ("v1.2/a_b.sql", "v1.2.a_b"),
        ("a.sql.sql", "a.sql"),
    ],
)
def test_job_name(path: str, name: str) -> None:
    assert job_name(Path("/jobs") / path, Path("/jobs")) == name


@pytest.mark.parametrize(
    "path",
    ["my rule.sql", "größe.sql", "a b/c.sql", "x" * 201 + ".sql", "d/" * 100 + "x.sql", "a\n.sql"],
)
def test_a_file_without_a_job_name_is_refused_with_the_remedy(path: str) -> None:
    with pytest.raises(SqlError) as error:
        job_name(Path("/jobs") / path, Path("/jobs"))
    assert error.value.hint


def test_scan_gives_everything(folder: Path, recorder: Recorder) -> None:
    write(folder, a=ONE, team__b="\ufeffSELECT 'ü';\r\n")
    (folder / "bad name.sql").write_text(TWO)
    change = FolderWatcher(folder, recorder.apply).scan()
    assert {name: file.text for name, file in change.upserts.items()} == {
        "a": ONE,
        "team.b": "SELECT 'ü';\r\n",
    }
    assert [path.name for path, _ in change.problems] == ["bad name.sql"]
    assert not change.removed
    assert not change.renamed


def test_create_edit_move_delete(watcher: FolderWatcher, folder: Path, recorder: Recorder) -> None:
    write(folder, a=ONE, new__deep__b=TWO)
    recorder.becomes(**{"a": ONE, "new.deep.b": TWO})
    write(folder, a=THREE)
    recorder.becomes(**{"a": THREE, "new.deep.b": TWO})
    (folder / "new").rename(folder / "old")
    recorder.becomes(**{"a": THREE, "old.deep.b": TWO})
    assert recorder.changes[-1].renamed == {"new.deep.b": "old.deep.b"}
    assert not recorder.changes[-1].removed
    (folder / "a.sql").rename(folder.parent / "a.sql")
    recorder.becomes(**{"old.deep.b": TWO})
    (folder.parent / "a.sql").rename(folder / "old" / "a.sql")
    recorder.becomes(**{"old.a": THREE, "old.deep.b": TWO})
    shutil.rmtree(folder / "old")
    recorder.becomes()
    assert not recorder.messages


def test_what_happens_at_once_is_one_change(
    watcher: FolderWatcher, folder: Path, recorder: Recorder
) -> None:
    before = len(recorder.changes)
    write(folder, **{f"r{i}": f"SELECT {i};" for i in range(100)})
    recorder.wait(lambda: len(recorder.jobs) == 100)
    (folder / "r0.sql").unlink()
    (folder / "r1.sql").rename(folder / "s1.sql")
    write(folder, r2=ONE, s2=TWO)
    recorder.wait(lambda: "s2" in recorder.jobs)
    assert len(recorder.changes) == before + 2
    last = recorder.changes[-1]
    assert (last.removed, last.renamed, set(last.upserts)) == (
        {"r0"},
        {"r1": "s1"},
        {"r2", "s1", "s2"},
    )


def test_half_written_files_are_never_seen(
    watcher: FolderWatcher, folder: Path, recorder: Recorder
) -> None:
    parts = [f"-- part {i}\n" for i in range(12)] + [ONE]
    for name in map(str, range(20)):
        before = len(recorder.changes)
        in_time = write_in_parts(folder / f"{name}.sql", parts, QUIET_MS / 1000)
        recorder.wait(partial(lambda name: recorder.jobs.get(name) == "".join(parts), name))
        if in_time:
            assert [set(change.upserts) for change in recorder.changes[before:] if change] == [
                {name}
            ]
            return
    pytest.skip(HELD_UP)


def test_a_file_that_never_rests_does_not_hold_up_the_others(
    watcher: FolderWatcher, folder: Path, recorder: Recorder
) -> None:
    done = threading.Event()

    def keep_writing() -> None:
        with (folder / "busy.sql").open("w") as file:
            while not done.wait(0.01):
                file.write("-- more\n")
                file.flush()

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        write(folder, calm=ONE)
        recorder.wait(lambda: recorder.jobs.get("calm") == ONE)
    finally:
        done.set()
        writer.join()
    recorder.wait(lambda: "busy" in recorder.jobs)


def test_editors(watcher: FolderWatcher, folder: Path, recorder: Recorder) -> None:
    write(folder, a=ONE)
    recorder.becomes(a=ONE)
    before = len(recorder.changes)
    (folder / ".a.sql.swp").write_text("vim")
    (folder / ".#a.sql").symlink_to("emacs@host.1")
    (folder / "4913").write_text("")
    (folder / "a.sql").rename(folder / "a.sql~")
    write(folder, a=TWO)
    recorder.becomes(a=TWO)
    (folder / "tmp_a").write_text(THREE)
    (folder / "tmp_a").replace(folder / "a.sql")
    recorder.becomes(a=THREE)
    os.utime(folder / "a.sql")
    (folder / ".git").mkdir()
    write(folder / ".git", hook=ONE)
    settle()
    assert len(recorder.changes) == before + 2
    assert not recorder.messages


def test_links(watcher: FolderWatcher, folder: Path, recorder: Recorder, tmp_path: Path) -> None:
    """Links within the folder count (a mounted ConfigMap is made of them), those that lead out of
    it do not."""
    (tmp_path / "secret.sql").write_text(TWO)
    (tmp_path / "outside").mkdir()
    write(tmp_path / "outside", b=TWO)
    for version, text in (("..v1", ONE), ("..v2", THREE)):
        write(folder / version, a=text)
    (folder / "..data").symlink_to("..v1")
    (folder / "a.sql").symlink_to("..data/a.sql")
    (folder / "out.sql").symlink_to(tmp_path / "secret.sql")
    (folder / "gone.sql").symlink_to("nowhere.sql")
    (folder / "loop.sql").symlink_to("loop.sql")
    (folder / "outside").symlink_to(tmp_path / "outside")
    recorder.becomes(a=ONE)
    (folder / "..next").symlink_to("..v2")
    (folder / "..next").rename(folder / "..data")
    recorder.becomes(a=THREE)
    assert not recorder.messages


def break_with_bytes(path: Path) -> None:
    path.write_bytes(b"SELECT '\xff';")


def break_with_nothing(path: Path) -> None:
    path.write_text(" \n")


def break_with_size(path: Path) -> None:
    with path.open("a") as file:
        file.truncate(MAX_BYTES + 1)


def break_with_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_with_bytes, "file 'a.sql' is not UTF-8"),
        (break_with_nothing, "file 'a.sql' is empty"),
        (
            break_with_size,
            f"file 'a.sql' has {MAX_BYTES + 1} bytes, at most {MAX_BYTES} are allowed",
        ),
        (break_with_pipe, "file 'a.sql' cannot be read"),
    ],
)
def test_a_bad_file_is_named_and_the_old_version_stays(
    watcher: FolderWatcher,
    folder: Path,
    recorder: Recorder,
    damage: Callable[[Path], None],
    message: str,
) -> None:
    write(folder, a=ONE)
    recorder.becomes(a=ONE)
    damage(folder / "a.sql")
    recorder.wait(lambda: recorder.messages == [message])
    assert recorder.changes[-1].keeps("a")
    write(folder, b=TWO)
    recorder.becomes(a=ONE, b=TWO)
    assert recorder.messages == [message], "a problem is told once"
    assert [path.name for path in watcher.problems()] == ["a.sql"]
    (folder / "a.sql").unlink()
    write(folder, a=THREE)
    recorder.becomes(a=THREE, b=TWO)
    assert not watcher.problems()


def test_two_files_of_one_name(watcher: FolderWatcher, folder: Path, recorder: Recorder) -> None:
    write(folder, **{"x.y": ONE})
    recorder.becomes(**{"x.y": ONE})
    write(folder, x__y=TWO)
    recorder.wait(lambda: bool(recorder.messages))
    write(folder, **{"x.y": THREE})
    recorder.becomes(**{"x.y": THREE})
    (folder / "x.y.sql").unlink()
    recorder.becomes(**{"x.y": TWO})
    assert recorder.messages == ["file 'y.sql' gives the job 'x.y', which another file gives, too"]


def test_two_new_files_of_one_name_are_both_refused(folder: Path, recorder: Recorder) -> None:
    write(folder, **{"x.y": ONE, "x__y": TWO, "z": THREE})
    change = FolderWatcher(folder, recorder.apply).scan()
    assert set(change.upserts) == {"z"}
    assert {path.name for path, _ in change.problems} == {"x.y.sql", "y.sql"}
    assert change.keeps("x.y")


def test_a_folder_that_is_gone_removes_no_job(folder: Path, recorder: Recorder) -> None:
    watcher = FolderWatcher(folder, recorder.apply, quiet_ms=QUIET_MS, rescan_s=0.1)
    write(folder, a=ONE)
    recorder.apply(watcher.scan())
    watcher.start()
    try:
        folder.rename(folder.with_name("unmounted"))
        recorder.wait(lambda: bool(recorder.messages))
        assert recorder.jobs == {"a": ONE}
        assert recorder.changes[-1].keeps("a")
        folder.with_name("unmounted").rename(folder)
        write(folder, a=TWO)
        recorder.becomes(a=TWO)
        assert not watcher.problems()
    finally:
        watcher.stop()


def test_folders_and_files_without_permission(recorder: Recorder) -> None:
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    write(base, a=ONE, team__b=TWO)
    watcher = FolderWatcher(base, recorder.apply)
    as_root = os.geteuid() == 0
    try:
        (base / "a.sql").chmod(0)
        (base / "team").chmod(0)
        if as_root:
            os.seteuid(65534)
        change = watcher.scan()
    finally:
        if as_root:
            os.seteuid(0)
        (base / "team").chmod(0o755)
        shutil.rmtree(base)
    assert {path.name: error.detail for path, error in change.problems} == {
        "a.sql": "Permission denied",
        "team": "permission denied",
    }
    assert change.keeps("a")
    assert change.keeps("team.b")
    assert not change.keeps("other")


def test_nothing_is_lost_without_notifications(
    folder: Path,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def out_of_watches(self: BaseObserver) -> None:
        raise OSError(28, "inotify watch limit reached")

    monkeypatch.setattr(BaseObserver, "start", out_of_watches)
    watcher = FolderWatcher(folder, recorder.apply, quiet_ms=QUIET_MS)
    watcher.start()
    try:
        write(folder, a=ONE)
        recorder.becomes(a=ONE)
        write(folder, a=TWO)
        (folder / "a.sql").rename(folder / "b.sql")
        recorder.becomes(b=TWO)
    finally:
        watcher.stop()
    assert "inotify watch limit reached" in caplog.text


def test_an_observer_that_falls_silent_is_noticed(
    watcher: FolderWatcher, folder: Path, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    assert watcher._observer is not None
    watcher._observer.unschedule_all()
    watcher._rescan_s = 1.0
    watcher._woken.set()
    write(folder, a=ONE)
    recorder.becomes(a=ONE)
    assert "come without notifications" in caplog.text
    assert watcher._rescan_s == POLL_S


def test_a_change_that_could_not_be_applied_comes_again(
    folder: Path, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    watcher = FolderWatcher(folder, recorder.apply, quiet_ms=QUIET_MS, rescan_s=0.1)
    watcher.start()
    try:
        recorder.failures = 2
        write(folder, a=ONE)
        recorder.becomes(a=ONE)
    finally:
        watcher.stop()
    assert caplog.text.count("RuntimeError: the engine is busy") == 2
