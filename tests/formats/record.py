"""Asks a real Flink for the answers to files.txt and sinks.txt that are not known yet (all with
--all):

    python -m tests.formats.record [--all]

Needs Java and the sibling folder ../shared; FLINK_ORACLE_CACHE names a folder that can be
written."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.formats import file_cases, sink_cases
from tests.support import load_oracle, oracle_missing


def main(arguments: Sequence[str]) -> int:
    reason, everything = oracle_missing(), "--all" in arguments
    if reason:
        print(reason, file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory() as folder,
        load_oracle().Oracle(log=Path(folder) / "flink.log") as flink,
    ):
        file_cases.record(flink, Path(folder), {} if everything else file_cases.answers())
        sink_cases.record(flink, Path(folder), {} if everything else sink_cases.answers())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
