"""The example of the page of tables over HTTP prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from sqlengine.cli import cli
from tests.servers.webhook import Told, receiving
from tests.support import ROOT

PAGE = Path(ROOT) / "docs" / "connectors" / "http.md"
EXAMPLE = re.compile(
    r"echo '(?P<rates>\{.*\})' > rates\.json.*\$ cat > rates\.sql\n(?P<script>.*?)"
    r"    \$ sql run rates\.sql\n(?P<printed>.*?)\n\n",
    re.DOTALL,
)


def test_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = EXAMPLE.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None
    with receiving() as host:
        host.reply = lambda _: Told(
            200, {"Content-Type": "application/json"}, found["rates"].encode()
        )
        Path("rates.sql").write_text(found["script"].replace("http://127.0.0.1:9000", host.url))
        done = CliRunner().invoke(cli, ["run", "rates.sql"])
    printed = [line.split() for line in found["printed"].splitlines()]
    assert [line.split() for line in done.stdout.splitlines()] == printed
