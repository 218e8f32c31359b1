from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.connectors.contract.place import Place
from tests.connectors.contract.servers import Servers
from tests.servers.process import Missing


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
