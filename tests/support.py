"""Where things are, for tests that look outside their own folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent


def shared_folder() -> Path | None:
    """The sibling folder `shared` (corpora, the Flink oracle), or None; `SQLENGINE_SHARED` names another place."""
    folder = Path(os.environ.get("SQLENGINE_SHARED", ROOT.parent / "shared"))
    return folder if folder.is_dir() else None


def oracle_missing() -> str | None:
    """Why a real Flink cannot run here, or None when it can."""
    shared = shared_folder()
    if shared is None or not (shared / "oracle" / "flink_oracle.py").is_file():
        return "the folder ../shared/oracle is not there"
    if shutil.which("java") is None:
        return "there is no Java"
    return None
