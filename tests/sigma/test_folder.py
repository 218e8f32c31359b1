"""A folder of rules: which files are rules, names of jobs, what is doubtful, and what there is
without pySigma."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sqlengine.cli import cli
from sqlengine.sigma.files import is_rule_file
from sqlengine.sigma.folder import FolderRules, convert_folder

WITH = "WITH ('connector' = 'topic', 'topic' = 't', 'format' = 'json');\n"
TABLES = f"CREATE TABLE p (F STRING) {WITH}CREATE TABLE alerts (rule_id STRING) {WITH}"
RULE = "title: R\nid: 0a1b2c3d-1111-4222-8333-444455556666\nlevel: low\nlogsource: {product: p}\ndetection: {s: {F: a}, condition: s}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "_tables.sql").write_text(TABLES)
    return tmp_path


def jobs(folder: Path) -> dict[str, str]:
    """Jobs, each with the reason why it is none."""
    done = convert_folder(folder, [], None).conversion.done
    return {d.job: "" if d.error is None else str(d.error) for d in done}


def test_which_files_are_rules() -> None:
    assert all(map(is_rule_file, ["a.yml", "a.yaml", "a.b.yml"]))
    assert not any(map(is_rule_file, ["_a.yml", ".a.yml", "a.test.yaml", "a.test.yml", "a.sql"]))


def test_names_of_jobs(folder: Path) -> None:
    (folder / "team").mkdir()
    (folder / "team" / "my rule.yml").write_text(RULE)
    (folder / "two.yml").write_text(f"{RULE}---\n{RULE}")
    (folder / "same.yml").write_text(RULE)
    (folder / "same.yaml").write_text(RULE)
    (folder / "bad.yml").write_text("title: x\n---\n- y\n---\n" + RULE)
    assert jobs(folder) == {
        "team.my_rule": "",
        "two.1": "",
        "two.2": "",
        "same": "'same.yaml' gives the job 'same', too",
        "bad.1": "it has none of the attributes detection, correlation, filter",
        "bad.2": "it is no map of attributes",
        "bad.3": "",
    }


def test_what_is_common_to_several_rules(folder: Path) -> None:
    common = "action: global\ntitle: R\nlogsource: {product: p}\n---\n"
    detections = (
        "detection: {s: {F: a}, condition: s}\n---\naction: repeat\ndetection: {s: {F: b}}\n"
    )
    (folder / "r.yml").write_text(common + detections)
    done = convert_folder(folder, [], None).conversion.converted
    assert [d.sql.splitlines()[-1] for d in done] == [
        "WHERE LOWER(`F`) = 'a';",
        "WHERE LOWER(`F`) = 'b';",
    ]


def test_only_what_has_changed_is_converted_again(folder: Path) -> None:
    rules = FolderRules()
    files = {"a.yml": RULE, "b.yml": RULE.replace("F: a", "F: b")}
    first = rules.convert(files, None, TABLES, folder).done
    files["b.yml"] = RULE.replace("F: a", "F: c")
    second = rules.convert(files, None, TABLES, folder).done
    assert second[0] is first[0]
    assert "'c'" in second[1].sql
    filtered = (
        "title: F\nlogsource: {product: p}\nfilter: {rules: any, s: {F: z}, condition: not s}"
    )
    third = rules.convert({**files, "f.yml": filtered}, None, TABLES, folder).done
    assert all("'z'" in d.sql for d in third)
    assert rules.convert(files, "missing: null", TABLES, folder).done[0].sql == first[0].sql


DOUBTS = [
    (RULE.replace("id: 0a1b2c3d-1111-4222-8333-444455556666\n", ""), "it has no id"),
    (RULE.replace("level: low", "level: loud"), "its level 'loud' is unknown"),
    (RULE.replace("{F: a}", "[a]"), "keywords only"),
    (RULE.replace("F: a", "F|re: '.*a'"), "begins with .*"),
    (RULE.replace("F: a", "F: '*'"), "may be anything"),
    (RULE.replace("condition: s", "condition: not s"), "what an event is not"),
    (RULE.replace("F: a", "G: a"), "error: table 'p' has no column for G"),
    (RULE.replace("F: a", "F|x: a"), "error: Unknown modifier 'x'"),
    (RULE + "---\n" + RULE, "another rule has the id"),
    (RULE + "---\ntitle: F\nlogsource: {product: q}\nfilter: {rules: any, s: {F: z}, condition: s}",
     "the filter changes no rule"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "doubt"), DOUBTS)
def test_lint(text: str, doubt: str, folder: Path) -> None:
    (folder / "r.yml").write_text(text)
    done = CliRunner().invoke(cli, ["sigma", "lint", str(folder), "--output", "json"])
    found = [f"{f['kind']}: {f['text']}" for f in json.loads(done.output)["findings"]]
    assert any(doubt in text for text in found), found
    assert done.exit_code == int(doubt.startswith("error"))


def test_convert_tells_of_every_rule(folder: Path) -> None:
    (folder / "good.yml").write_text(RULE)
    (folder / "bad.yml").write_text(RULE.replace("F: a", "G: a"))
    arguments = ["sigma", "convert", str(folder), "--out", str(folder / "out"), "--output", "json"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 1
    body = json.loads(done.output)
    assert (body["converted"], body["not_converted"]) == (1, 1)
    assert [r["status"] for r in body["rules"]] == ["not converted", "converted"]
    assert "has no column for G" in body["rules"][0]["reason"]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "no file of rules"),
        ({"r.yml": RULE, "_sigma.yaml": "a: 1"}, "is wrong"),
        ({"r.yml": RULE, "_tables.sql": "CREATE TABEL x"}, "unexpected"),
        ({"r.yml": RULE, "_tables.sql": None}, "is not there"),
    ],
)
def test_a_wrong_folder_says_why(files: dict[str, str | None], reason: str, folder: Path) -> None:
    for name, text in files.items():
        (folder / name).unlink() if text is None else (folder / name).write_text(text)
    done = CliRunner().invoke(cli, ["sigma", "lint", str(folder)])
    assert done.exit_code == 1
    assert reason in done.output.lower()


def test_without_pysigma_the_extra_is_named() -> None:
    program = "import sys; sys.modules['sigma'] = None; import sqlengine.sigma.parsing"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ServiceError: Sigma rules need pySigma" in done.stderr
