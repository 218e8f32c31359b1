"""The tutorial by its reader: every block and command of it, one after the other, in an empty folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from tests.docs.reader import Reader, free_port
from tests.support import ROOT

PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
# A block with its language, or one that is indented: what the commands before it print.
PIECE = re.compile(
    r"^```(?P<language>\w*)\n(?P<block>.*?)^```$|(?P<printed>(?:^    \S[^\n]*\n)+)",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"(?:--|#) (\S+\.(?:sql|yaml))\n")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    one = Reader(tmp_path, free_port())
    try:
        yield one
    finally:
        one.close()


def test_the_tutorial_does_what_it_says(reader: Reader) -> None:
    with reader.ended():
        kinds = [follow(reader, piece) for piece in PIECE.finditer(PAGE)]
    assert kinds.count("sh") >= 6
    assert {"sql", "yaml", "shown", "printed"} <= set(kinds)


def follow(reader: Reader, piece: re.Match[str]) -> str:
    """Does what a piece says, and returns its kind."""
    language, block = piece["language"], piece["block"]
    if piece["printed"]:
        lines = dedent(piece["printed"]).splitlines()
        assert reader.printed.splitlines()[-len(lines) :] == lines, reader.printed
        return "printed"
    if language == "sh":
        reader.block(block)
        return "sh"
    if language == "":
        command, *shown = block.splitlines()
        done = reader.shell(f"exec 2>&1; {command.removeprefix('$ ')}")
        assert done.stdout.splitlines() == shown
        return "shown"
    name = FILE.match(block)
    assert name, f"where does this block go?\n{block}"
    (reader.folder / name[1]).write_text(block)
    return language
