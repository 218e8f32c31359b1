from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from sqlengine import service as services
from sqlengine.engine import Engine
from sqlengine.machine import THIS
from sqlengine.system import back_off
from tests.connectors.contract.place import Place
from tests.connectors.contract.servers import Servers
from tests.servers.process import Missing
from tests.spark.staged import Staged


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with closing(Servers(tmp_path_factory.mktemp("contract"))) as made:
        yield made


@pytest.fixture
def place(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Place]:
    """A new table at the place that the test is about."""
    try:
        made: Place = request.param(servers)
    except Missing as error:
        pytest.skip(str(error))
    with closing(made):
        yield made


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is away is asked again each second."""
    monkeypatch.setattr(back_off, "_LONGEST_S", 1.0)


@pytest.fixture
def on_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers whose operators run in tasks, as Spark runs them."""
    staged = replace(THIS, spark=lambda _: Staged(2))
    opened: Callable[..., Engine] = partial(Engine, machine=staged)
    monkeypatch.setattr(services, "Engine", opened)
