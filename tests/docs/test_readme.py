"""The README by its reader: every block and command of it, one after the other, in a fresh folder,
with `sql` on the PATH and a server that was started as the README says."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from sqlengine.cli.sql import MODULES
from tests.docs.reader import Reader, free_port
from tests.support import ROOT, eventually

README = (ROOT / "README.md").read_text(encoding="utf-8")
USERS = (ROOT / "docs" / "user-functions.md").read_text(encoding="utf-8")
# A block with its language, a block that is indented (what a command prints), or code in a line.
PIECE = re.compile(
    r"^```(?P<language>\w*)\n(?P<block>.*?)^```$"
    r"|(?P<printed>(?:^    \S[^\n]*\n)+)"
    r"|`(?P<code>(?:sql|curl|cp|echo) [^`]+)`",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"(?:--|#) ([\w/]+\.(?:sql|py))\n")
SETUP = "make setup && "


def mention(reader: Reader, code: str) -> None:
    """Runs a command of the text; of one without arguments, or with an ellipsis, only that it
    exists is known."""
    words = code.split()
    if words[0] == "sql" and (len(words) == 2 or "…" in code):
        assert words[1] in MODULES, f"there is no command `{code}`"
    elif words[:2] == ["sql", "serve"]:
        other = Reader(reader.folder / "other", free_port())
        other.folder.mkdir()
        with other.ended():
            other.serve(code)
    else:
        reader.run(code.replace(r"\|", "|"))


def refused(reader: Reader, shown: str) -> None:
    """Puts the statement that is shown into its file, and sees the error that is shown."""
    command, *error = shown.splitlines()
    (line,) = re.findall(r"^  \| (\w.*)$", shown, re.MULTILINE)
    (reader.folder / "rule.sql").write_text(line)
    done = reader.shell(command.removeprefix("$ "))
    assert (done.returncode, done.stderr.splitlines()) == (1, error)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """Its folder has the examples beside it, as the repository has."""
    assert shutil.which("curl"), "the README uses curl"
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    one = Reader(tmp_path, free_port())
    try:
        yield one
    finally:
        one.close()


def test_the_readme_does_what_it_says(reader: Reader) -> None:
    with reader.ended():
        done = [follow(reader, piece) for piece in PIECE.finditer(README)]
    assert done.count("sh") >= 3
    assert done.count("code") >= 12
    assert {"sql", "printed", "refused"} <= set(done)


def follow(reader: Reader, piece: re.Match[str]) -> str:
    """Does what a piece says, and returns its kind."""
    language, block = piece["language"], piece["block"]
    if piece["code"]:
        mention(reader, piece["code"])
        return "code"
    if piece["printed"]:
        if not piece["printed"].strip().startswith("make"):
            shown = dedent(piece["printed"])
            assert reader.printed.endswith(shown), reader.printed
            return "printed"
        return "make"
    if language == "sh":
        if not block.startswith(SETUP):  # this environment is what it makes
            reader.block(block)
        return "sh"
    if language == "":
        refused(reader, block)
        return "refused"
    name = FILE.match(block)
    assert name, f"where does this block go?\n{block}"
    (reader.folder / name[1]).write_text(block)
    return language


def test_functions_and_sinks_in_python_by_the_readmes_server(reader: Reader) -> None:
    (start,) = re.findall(r"^(sql serve .*?)&", README, re.MULTILINE)
    for name, source in re.findall(
        r"^```python\n# (functions/\w+\.py)\n(.*?)^```", USERS, re.M | re.S
    ):
        path = reader.folder / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    blocks = re.findall(r"^```sql\n(.*?)^```", USERS, re.M | re.S)
    with reader.ended():
        reader.serve(start)
        for number, block in enumerate(blocks):
            (reader.folder / f"job{number}.sql").write_text(block)
            reader.run(f"sql submit job{number}.sql")
        row = '{"address": "me@host.org", "amount": 2.5, "tries": 4, "note": "root", "ts": "2026-01-31 12:00:01"}'
        reader.run(
            f"echo '{row}' | sql topic write logins; sql tail risks --from earliest --limit 1"
        )
        assert reader.printed.splitlines()[1:] == ['{"host":"host.org","risk":10.0}']
        log = reader.folder / "server0.log"
        eventually(lambda: "wake up: word me@host.org" in log.read_text(), log.read_text)
