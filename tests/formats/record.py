"""Asks a real Flink for the answers to files.txt and sinks.txt that are not known yet (all with --all):

    python -m tests.formats.record [--all]

Needs Java and the sibling folder ../shared; FLINK_ORACLE_CACHE names a folder that can be written."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.formats import file_cases, sink_cases
from tests.support import oracle_missing, shared_folder


def main(arguments: Sequence[str]) -> int:
    reason, everything = oracle_missing(), "--all" in arguments
    if reason:
        print(reason, file=sys.stderr)
        return 1
    path = shared_folder() / "oracle" / "flink_oracle.py"  # type: ignore[operator]
    spec = importlib.util.spec_from_file_location("flink_oracle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with tempfile.TemporaryDirectory() as folder, module.Oracle(log=Path(folder) / "flink.log") as flink:
        file_cases.record(flink, Path(folder), {} if everything else file_cases.answers())
        sink_cases.record(flink, Path(folder), {} if everything else sink_cases.answers())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
