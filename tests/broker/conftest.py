from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "broker"


@pytest.fixture
def broker(folder: Path) -> Iterator[EmbeddedBroker]:
    opened = EmbeddedBroker(folder)
    yield opened
    opened.close()
