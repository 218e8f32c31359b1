"""Some seconds of the fuzzing that `make soak` does for half an hour, and a start of the server."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.fuzzing.__main__ import LIFE, fuzz


def test_the_job_beside_is_exact(tmp_path: Path) -> None:
    met = fuzz(tmp_path, LIFE - 1, 6, rounds=2)
    assert met["starts of the server"] >= 2
    assert met["requests"]
    assert met["records"]
