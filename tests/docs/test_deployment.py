"""The files of examples/deployment: their commands start servers, which take over each other's data
folder as docs/deployment.md says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.reader import PORT, Reader, free_port
from tests.support import ROOT, eventually

FOLDER = ROOT / "examples" / "deployment"
UNIT = (FOLDER / "sqlengine.service").read_text(encoding="utf-8")
CONTAINER = (FOLDER / "Containerfile").read_text(encoding="utf-8")
(JOB,) = re.findall(
    r"^```sql\n-- brute_force\.sql\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S
)
FAILURE = '{"ts": "2026-01-31 12:00:0%d", "src_ip": "203.0.113.7", "outcome": "failure"}\n'
LAST = '{"ts": "2026-01-31 12:00:13", "src_ip": "203.0.113.7", "outcome": "success"}\n'
ALERT = '{"src_ip":"203.0.113.7","failures":5,"window_end":"2026-01-31 12:00:10"}\n'


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """The folder has the token, and stands for / in the paths of the files."""
    for name in ("sqlengine-token", "token"):
        (tmp_path / name).write_text("secret\n")
    one = Reader(tmp_path, free_port(), token="secret")
    yield one
    one.close()


def unit_command(data: Path) -> str:
    (line,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    command = line.replace("/opt/sqlengine/bin/", "").replace("%d/", f"{data.parent}/")
    return command.replace("/var/lib/sqlengine/data", str(data))


def container_command(data: Path, key: str = "ENTRYPOINT") -> str:
    (line,) = re.findall(rf"^(?:HEALTHCHECK )?{key} (\[.*\])$", CONTAINER, re.MULTILINE)
    command = shlex.join(json.loads(line))
    return command.replace("/run/secrets/", f"{data.parent}/").replace("/data", str(data))


def test_a_copy_goes_on_elsewhere(reader: Reader) -> None:
    """From the unit to the container, with the folder copied while the first server was stopped."""
    data, backup = reader.folder / "data", reader.folder / "backup"
    with reader.ended():
        reader.serve(unit_command(data))
        begin(reader)
    shutil.copytree(data, backup)
    shutil.rmtree(data)
    with reader.ended():
        reader.serve(container_command(backup))
        reader.run(container_command(backup, "CMD"))
        finish(reader)


def test_a_copy_of_one_moment_while_it_runs(reader: Reader) -> None:
    """A snapshot of the file system is what all files are at one moment."""
    data, backup = reader.folder / "data", reader.folder / "backup"
    with reader.ended():
        reader.serve(unit_command(data))
        begin(reader)
        reader.servers[0].send_signal(signal.SIGSTOP)
        shutil.copytree(data, backup, ignore=shutil.ignore_patterns("server.sock"))
        reader.servers[0].send_signal(signal.SIGCONT)
        finish(reader)
    with reader.ended():
        reader.serve(unit_command(backup))
        finish(reader)


def begin(reader: Reader) -> None:
    """Submits the job and gives it all but its last event."""
    (reader.folder / "brute_force.sql").write_text(JOB)
    (reader.folder / "events").write_text("".join(FAILURE % n for n in range(5)))
    reader.run("sql submit brute_force.sql; sql topic write logins events")


def finish(reader: Reader) -> None:
    """Gives the last event, and sees one alert for all of them."""
    (reader.folder / "last").write_text(LAST)
    reader.run("sql topic write logins last")

    def found() -> str:
        reader.run("sql topic read alerts")
        return reader.printed

    assert eventually(found) == ALERT


def test_the_unit_is_one_of_systemd(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze")
    unit = UNIT.replace("/opt/sqlengine/bin/sql", "/bin/true")
    (tmp_path / "sqlengine.service").write_text(unit)
    done = subprocess.run(
        [analyze, "verify", tmp_path / "sqlengine.service"], capture_output=True, text=True
    )
    assert "sqlengine.service" not in done.stderr, done.stderr


def test_the_unit_is_hardened() -> None:
    """`systemd-analyze security` gives 0 (nothing is exposed) to 10."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("there is no systemd-analyze")
    command = [
        analyze,
        "security",
        "--offline=true",
        "--threshold=25",
        str(FOLDER / "sqlengine.service"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if "--offline" in done.stderr:
        pytest.skip("this systemd-analyze looks at units that run alone")
    assert done.returncode == 0, done.stdout.splitlines()[-1]


def test_the_container_says_what_the_page_says() -> None:
    assert f"EXPOSE {PORT}" in CONTAINER
    assert "VOLUME /data" in CONTAINER
    assert "STOPSIGNAL SIGTERM" in CONTAINER
