"""Every script in examples/sql runs, and gives what a real Flink gave for it.

`pytest tests/examples -m oracle` compares the recorded results with a real Flink; with `--update`
it records them.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from tests.support import PATIENCE_S, ROOT

DATA = ROOT / "examples" / "data"
EXPECTED = ROOT / "examples" / "expected"
SCRIPTS = sorted((ROOT / "examples" / "sql").glob("*.sql"), key=lambda path: path.name)
# What Flink does not have, and how the same is said to it.
FOR_FLINK = [
    ("CIDR_MATCH(dst_ip, '10.0.0.0/8')", "(dst_ip LIKE '10.%')"),
    (
        "'connector' = 'topic', 'topic' = 'alerts', 'format' = 'json', 'key.fields' = 'host'",
        "'connector' = 'filesystem', 'path' = '${OUT}/alerts', 'format' = 'json'",
    ),
]
Results = Counter[str]

pytestmark = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def test_example(script: Path, tmp_path: Path) -> None:
    header, expected = recorded(script)
    assert header["sha256"] == fingerprint(script), (
        "script or data changed: record it again, see above"
    )
    assert run_here(script, tmp_path) == expected


@pytest.mark.oracle
def test_recorded_result_is_that_of_flink(
    script: Path, flink: Any, update: bool, tmp_path: Path
) -> None:
    results = run_on_flink(script, flink, tmp_path)
    if update:
        header = {
            "script": script.name,
            "flink": flink_version(flink),
            "sha256": fingerprint(script),
        }
        lines = [json.dumps(header), *sorted(results.elements())]
        (EXPECTED / f"{script.stem}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert recorded(script)[1] == results


def recorded(script: Path) -> tuple[dict[str, str], Results]:
    header, *lines = (EXPECTED / f"{script.stem}.jsonl").read_text(encoding="utf-8").splitlines()
    return json.loads(header), Counter(map(same_numbers, lines))


def same_numbers(line: str) -> str:
    """A recorded line with the numbers of JSON files as `row` reads them."""
    one = json.loads(line)
    return (
        canonical({**one, "row": row(canonical(one["row"]))})
        if "sink" in one and isinstance(one["row"], dict)
        else line
    )


def fingerprint(script: Path) -> str:
    """Of all that the result depends on: the script, and the data files that it names."""
    text = script.read_bytes()
    used = [path for path in sorted(DATA.iterdir()) if path.name.encode() in text]
    return hashlib.sha256(b"\0".join([text, *(path.read_bytes() for path in used)])).hexdigest()


def run_here(script: Path, folder: Path) -> Results:
    command = [
        sys.executable,
        "-m",
        "sqlengine.cli",
        "run",
        str(script),
        "-D",
        f"DATA={DATA}",
        "-D",
        f"OUT={folder}/out",
    ]
    command += ["--output", "events", "--data", str(folder / "data")]
    run = subprocess.run(
        command, cwd=folder, capture_output=True, encoding="utf-8", timeout=PATIENCE_S
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    lines = run.stdout.splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    printed = [line for line in lines if not line.startswith("{")]
    return gather(events, printed, folder / "out", topic_lines(script, folder / "data"))


def run_on_flink(script: Path, flink: Any, folder: Path) -> Results:
    text = script.read_text(encoding="utf-8")
    for ours, theirs in FOR_FLINK:
        text = text.replace(ours, theirs)
    log = Path(flink.log.name)
    before = log.stat().st_size
    events = list(flink.run(text.replace("${DATA}", str(DATA)).replace("${OUT}", f"{folder}/out")))
    assert not [event for event in events if event["kind"] == "error"]
    printed = log.read_bytes()[before:].decode().splitlines()
    return gather(
        events, [line for line in printed if line.startswith("large> ")], folder / "out", []
    )


def gather(
    events: Iterable[dict[str, Any]], printed: Iterable[str], out: Path, topic: Iterable[str]
) -> Results:
    """All that a run gave, as a multiset of lines: rows by statement, lines in files by folder,
    printed lines."""
    rows = [{name: e[name] for name in ("stmt", "op", "row")} for e in events if e["kind"] == "row"]
    files = [{"sink": sink, "row": row(line)} for sink, line in file_lines(out)]
    topics = [{"sink": "alerts", "row": row(line)} for line in topic]
    return Counter(
        canonical(one) for one in [*rows, *files, *topics, *({"printed": line} for line in printed)]
    )


def canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def row(line: str) -> object:
    """A file's line. JSON has many words for one number (Flink writes 9315 and 9.27E+3 into a
    DECIMAL column)."""
    return json.loads(line, parse_int=float) if line.startswith("{") else line


def file_lines(out: Path) -> Iterator[tuple[str, str]]:
    """(sink, line) of all finished files of file sinks."""
    for path in sorted(out.glob("*/**/*")):
        if path.is_file() and not path.name.startswith((".", "_")):
            for line in path.read_text(encoding="utf-8").splitlines():
                yield path.relative_to(out).parts[0], line


def topic_lines(script: Path, data: Path) -> list[str]:
    """What the script wrote to the topic `alerts`."""
    if "'connector' = 'topic'" not in script.read_text(encoding="utf-8"):
        return []
    broker = EmbeddedBroker(data, fsync="none")
    try:
        shards = range(broker.topic("alerts").shards)
        parts = [
            broker.read("alerts", shard, 0, until=broker.end_offset("alerts", shard))
            for shard in shards
        ]
        return [value.decode() for part in parts if part for value in part.values.to_pylist()]
    finally:
        broker.close()


def flink_version(flink: Any) -> str:
    """From the name of Flink's main jar on the oracle's class path."""
    path = next(part for part in flink.jvm.args if "flink-oracle" in part or "/lib/*" in part)
    folder = Path(next(part for part in path.split(":") if part.endswith("/*"))).parent
    return next(folder.glob("flink-dist-*.jar")).stem.removeprefix("flink-dist-")
