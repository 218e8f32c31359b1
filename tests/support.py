"""What tests of all folders share: where things are, and waiting until something is so."""

from __future__ import annotations

import importlib.util
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
# Only a test that fails waits so long. A machine that does ten other things at once is no reason to
# fail.
PATIENCE_S = 150
T = TypeVar("T")


def eventually(
    condition: Callable[[], T | Literal[False] | None],
    what: str | Callable[[], object] = "it",
    patience_s: float = PATIENCE_S,
) -> T:
    """What the condition gives once it is true. `what` tells the error what was waited for."""
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(
                f"{what() if callable(what) else what} did not come true in {patience_s} s"
            )
        time.sleep(0.01)
    return found


HELD_UP = "this machine holds up writing for longer than a watcher waits"


def write_in_parts(path: Path, parts: Sequence[str], quiet_s: float) -> bool:
    """Writes a file with pauses of a third of `quiet_s`; whether none of them was longer than that
    in the end. Where one was, whoever waits for so much quiet may have seen a part of the file."""
    longest, last = 0.0, time.monotonic()
    with path.open("w") as file:
        for part in parts:
            file.write(part)
            file.flush()
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
            time.sleep(quiet_s / 3)
    return longest < 0.9 * quiet_s


def shared_folder() -> Path | None:
    """The sibling folder `shared` (corpora, the Flink oracle), or None; `SQLENGINE_SHARED` names
    another place."""
    folder = Path(os.environ.get("SQLENGINE_SHARED", ROOT.parent / "shared"))
    return folder if folder.is_dir() else None


def oracle_missing() -> str | None:
    """Why a real Flink cannot run here, or None when it can."""
    shared = shared_folder()
    if shared is None or not (shared / "oracle" / "flink_oracle.py").is_file():
        return "the folder ../shared/oracle is not there"
    if shutil.which("java") is None or shutil.which("javac") is None:
        return "there is no JDK"
    return None


def load_oracle() -> Any:
    """The module `flink_oracle` of the folder `shared`; `oracle_missing` says whether there is
    one."""
    path = shared_folder() / "oracle" / "flink_oracle.py"  # type: ignore[operator]
    os.environ.setdefault(
        "FLINK_ORACLE_CACHE", str(Path.home() / ".cache" / "sqlengine" / "flink-oracle")
    )
    spec = importlib.util.spec_from_file_location("flink_oracle", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
