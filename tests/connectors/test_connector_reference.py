"""The page of connectors and formats is what they declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.capabilities import DeliveryGuarantee
from sqlengine.connectors.reference import page
from sqlengine.connectors.registry import connector_names, get_connector
from tests.support import ROOT

PAGE = Path(ROOT) / "docs" / "connectors.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(PAGE.parent), (
        "run: python -m sqlengine.connectors.reference docs"
    )


@pytest.mark.parametrize("name", connector_names())
def test_every_connector_can_read_or_write_and_says_what_its_guarantee_rests_on(name: str) -> None:
    connector = get_connector(name)
    assert connector is not None
    source, sink = connector.capabilities.source, connector.capabilities.sink
    assert source is not None or sink is not None
    assert sink is None or sink.condition
    assert sink is None or isinstance(sink.guarantee, DeliveryGuarantee)
