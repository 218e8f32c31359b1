"""docs/sigma.md: its folder is converted to the SQL that the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from sqlengine.cli import cli
from sqlengine.sigma.mappings import mapping_names, read_mapping
from tests.support import ROOT

PAGE = (ROOT / "docs" / "sigma.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TABLES, CONVERTED = (text for kind, text in BLOCK.findall(PAGE) if kind == "sql")
OWN, RULE, CORRELATION, MAPPING = (text for kind, text in BLOCK.findall(PAGE) if kind == "yaml")


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"_tables.sql": TABLES, "_sigma.yaml": OWN, "encoded.yml": RULE}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = CliRunner().invoke(cli, ["sigma", "convert", ".", "--out", "out"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "encoded.sql").read_text() == CONVERTED
    assert (tmp_path / "out" / "_tables.sql").read_text() == TABLES
    assert CliRunner().invoke(cli, ["sigma", "lint", "."]).exit_code == 0
    (tmp_path / "often.yml").write_text(CORRELATION)
    done = CliRunner().invoke(cli, ["sigma", "convert", ".", "--out", "out2"])
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in (tmp_path / "out2").iterdir()) == ["_tables.sql", "often.sql"]


def test_a_mapping_of_ones_own_is_one() -> None:
    found = read_mapping(MAPPING, "own.yaml")
    assert found.null_missing
    assert set(found.placeholders) == {"Administrators", "KnownHosts"}


def test_the_mappings_of_the_package_are_named() -> None:
    section = PAGE.partition("## Mappings")[2].partition("The first table")[0]
    assert {n for n in mapping_names() if f"`{n}`" in section} == set(mapping_names())
