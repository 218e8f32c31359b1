"""A connector, a format and a function of another distribution work without a change here."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sqlengine.connectors.registry import connector_names
from sqlengine.formats.registry import format_names
from sqlengine.system.plugins import CONNECTORS, FORMATS, points

PLUGIN = Path(__file__).parent / "plugin"
SCRIPT = """CREATE TABLE words (n STRING, word STRING)
WITH ('connector' = 'filesystem', 'path' = 'words.txt', 'format' = 'pipes');
CREATE TABLE heard (n STRING, word STRING) WITH ('connector' = 'lines', 'path' = 'heard.txt');
INSERT INTO heard SELECT n, shout(word) FROM words;
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin and its metadata, as `pip install --target` leaves it."""
    build, folder = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(build)]
    subprocess.run(command, cwd=PLUGIN, check=True, stdout=subprocess.DEVNULL)
    with zipfile.ZipFile(next(build.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder


def run(folder: Path, installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python in `folder` as a user who has installed the plugin."""
    path = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_a_script_uses_all_three(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("1|one\n2|two\n")
    (tmp_path / "script.sql").write_text(SCRIPT)
    done = run(tmp_path, installed, "-m", "sqlengine.cli", "run", "script.sql")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "heard.txt").read_text() == "1 ONE!\n2 TWO!\n"


def test_explain_tells_its_capabilities(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text(SCRIPT)
    done = run(tmp_path, installed, "-m", "sqlengine.cli", "explain", "script.sql")
    assert (
        "== sinks ==\nheard (lines): at-least-once, changelogMode=[I];"
        " rows since the last checkpoint are appended again after a crash" in done.stdout
    ), done.stderr


def test_without_it_the_names_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_text(SCRIPT)
    done = run(tmp_path, tmp_path, "-m", "sqlengine.cli", "explain", "script.sql")
    assert done.returncode == 1
    assert "unknown format 'pipes'" in done.stderr


def test_our_names_cannot_be_taken(installed: Path, tmp_path: Path) -> None:
    about = tmp_path / "greedy-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: greedy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[sqlengine.formats]\njson = greedy:Json\n")
    code = "from sqlengine.formats.registry import get_format; print(type(get_format('json')))"
    assert "JsonFormat" in run(tmp_path, tmp_path, "-c", code).stdout


def test_names_are_known_without_an_import(tmp_path: Path) -> None:
    code = (
        "import sys; from sqlengine.connectors.registry import connector_names;"
        "print(connector_names(), [m for m in sys.modules if m.startswith('sqlengine.connectors.')])"
    )
    shown = run(tmp_path, tmp_path, "-c", code).stdout
    assert "'jdbc'" in shown
    assert "sqlengine.connectors.jdbc" not in shown


@pytest.mark.parametrize("group", [CONNECTORS, FORMATS])
def test_each_entry_point_has_the_name_of_its_class(group: str) -> None:
    """The names under which tables know them are those that they tell in messages."""
    found = points(group)
    assert sorted(found) == (connector_names() if group == CONNECTORS else format_names())
    for name, point in found.items():
        assert point.load().name == name
