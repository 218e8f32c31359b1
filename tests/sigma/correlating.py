"""Correlations over events of logins: run by the engine, and by pySigma's sqlite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from sqlengine.cli.sql import cli
from sqlengine.sigma.conversion import convert_all
from sqlengine.sigma.mappings import load_mappings
from sqlengine.sigma.parsing import read
from sqlengine.sigma.ruleset import ruleset
from sqlengine.sigma.tables import defined_tables

TABLES = """CREATE TABLE logs (id BIGINT, kind STRING, `User` STRING, Account STRING, Host STRING, n DOUBLE,
  ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '{folder}/events.json', 'format' = 'json');
CREATE TABLE alerts (rule_id STRING, ts TIMESTAMP(3), id BIGINT, group_key STRING, metric DOUBLE)
WITH ('connector' = 'filesystem', 'path' = '{folder}/alerts', 'format' = 'json');
"""
RULES = """
title: Failed login
name: failed
logsource: {product: logs}
detection: {s: {kind: failed}, condition: s}
---
title: Login
name: login
logsource: {product: logs}
detection: {s: {kind: login}, condition: s}
---
title: Whoami
name: whoami
logsource: {product: logs}
detection: {s: {kind: whoami}, condition: s}
---
"""
MAPPING = {
    "rule_id": "{id}",
    "ts": "{time}",
    "id": "id",
    "group_key": "{group}",
    "metric": "{metric}",
}


def correlation(text: str) -> str:
    """A rule set with one correlation, called C."""
    return f"{RULES}title: C\nid: C\ncorrelation: {text}\n"


def run(folder: Path, rules: str, events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The alerts of rules, which must all be converted, by time."""
    tables = TABLES.format(folder=folder)
    found = ruleset(read(rules, "rules.yml"))
    conversion = convert_all(found, load_mappings(["sigma"]), defined_tables(tables))
    assert [f"{d.about.title}: {d.error}" for d in conversion.refused] == []
    script = tables + "".join(d.sql for d in conversion.converted)
    lines = sorted((json.dumps(e) for e in events), key=lambda line: json.loads(line)["ts"])
    (folder / "events.json").write_text("\n".join(lines))
    (folder / "script.sql").write_text(script)
    done = CliRunner().invoke(cli, ["run", str(folder / "script.sql")])
    assert done.exit_code == 0, done.output + script
    written = [line for f in (folder / "alerts").rglob("*") for line in _lines(f)]
    return sorted((json.loads(line) for line in written), key=lambda a: (a["ts"], a["id"]))


def _lines(path: Path) -> list[str]:
    hidden = path.name.startswith((".", "_"))
    return path.read_text().splitlines() if path.is_file() and not hidden else []
