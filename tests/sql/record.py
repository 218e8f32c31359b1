"""Records what real Flink says to the golden scripts that have changed since (all with --all):

    python -m tests.sql.record [--all] [AREA/NAME …]

Needs Java and the sibling folder ../shared; FLINK_ORACLE_CACHE names a folder that can be
written."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.sql.golden import Event, Script, events_of, header, lines_of, recorded, scripts
from tests.support import load_oracle, oracle_missing


def ask(flink: Any, script: Script) -> list[Event]:
    """Flink's events for the script. AssertionError where it sees other statements than we do."""
    with tempfile.TemporaryDirectory() as out:
        events = list(
            flink.run(
                script.with_folders(Path(out)), mode=script.mode, keep_going=True, timeout_s=60
            )
        )
        seen = {e["stmt"] for e in events}
        assert seen == set(range(len(script.pieces))), (
            f"{script.name}: Flink sees statements {sorted(seen)}"
        )
        return recorded(script, events, Path(out))


def is_stale(script: Script) -> bool:
    expected = script.beside(".expected.jsonl")
    return not expected.exists() or events_of(expected.read_text())[0] != header(script)


def main(arguments: Sequence[str]) -> int:
    names = [a for a in arguments if a != "--all"]
    chosen = [
        s
        for s in scripts()
        if s.name in names or (not names and ("--all" in arguments or is_stale(s)))
    ]
    reason = oracle_missing()
    if reason:
        print(reason, file=sys.stderr)
        return 1
    if not chosen:
        return 0
    with load_oracle().Oracle() as flink:
        for script in chosen:
            events = ask(flink, script)
            script.beside(".expected.jsonl").write_text(lines_of([header(script), *events]))
            print(f"{script.name}: {len(script.pieces)} statements, {len(events)} events")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
