"""How an engine runs."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from rules.options import Options
from sqlengine.state.store import Fsync


@dataclass(frozen=True)
class Config:
    """`data`: the folder with everything durable; `jobs`: the watched folder of .sql files (None: DATA/jobs);
    `fsync`: 'none' (safe against the death of the process), 'interval' or 'epoch' (against power loss);
    `checkpoint_rows` and `checkpoint_ms`: a checkpoint begins after so many changed rows or so long."""

    data: Path = Path("data")
    jobs: Path | None = None
    fsync: Fsync = "none"
    rows_per_read: int = 4096
    checkpoint_rows: int = 100_000
    checkpoint_ms: int = 10_000
    host: str = "127.0.0.1"
    port: int = 8083
    token: str | None = None
    rules: Options = field(default_factory=Options)
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def jobs_folder(self) -> Path:
        return self.jobs or self.data / "jobs"


def data_folder(given: str | None) -> Path:
    """--data, else SQLENGINE_DATA, else ./data."""
    return Path(given or os.environ.get("SQLENGINE_DATA") or "data")
