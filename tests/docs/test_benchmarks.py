"""Benchmarks are found by their names, and the page has those of connectors."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import BENCHMARKS, NOT_BY_DEFAULT, chosen
from benchmarks.page import HEAD, PAGE


def test_names_stand_for_benchmarks() -> None:
    connectors = [name for name in BENCHMARKS if name.startswith("connectors_")]
    assert chosen(["connectors"]) == connectors
    assert chosen(["connectors_kafka", "connectors"])[0] == "connectors_kafka"
    assert chosen(["families"]) == ["families"]
    assert chosen([]) == [name for name in BENCHMARKS if name not in NOT_BY_DEFAULT]
    with pytest.raises(KeyError):
        chosen(["connector"])


def test_the_page_has_all_connectors() -> None:
    page = PAGE.read_text()
    assert page.startswith(HEAD)
    missing = [n for n in chosen(["connectors"]) if f"<!-- {n} -->" not in page]
    assert not missing
