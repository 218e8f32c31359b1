"""Requests made from the description of the server (OpenAPI), good ones and bad ones: none ends in a
fault of the server, and each answer is as it is described."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from sqlengine.api.openapi.document import document
from tests.service.harness import TABLES, User, rule, running

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")

CHECKS = [
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.status_code_conformance,
]
# Its bodies are MessagePack; tests of the broker make them.
LEFT_OUT = {"/api/v1/broker"}
TAKES_AWAY = ("/stop", "/terminate", "/remove", "/rollback", "/submit")
NAMES = ("events", "tables", "a", "spare")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("fuzzed")
    with running(folder / "data", uploads=True) as (_, user):
        yield user


def prepare(user: User) -> None:
    """Objects that requests can name; those before may have removed them."""
    for topic in ("events", "alerts", "spare"):
        user.topic(topic)
    user.submit("tables", TABLES)
    user.submit("a", rule("a"))


def ask_all(user: User, examples: int, mode: Any) -> None:
    schema = schemathesis.openapi.from_dict(document())
    prepare(user)
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path not in LEFT_OUT:
            with suppress(Unsatisfiable):  # nothing about it can be wrong
                _ask(operation, user.client.server, examples, mode)
            if operation.method == "delete" or operation.path.endswith(TAKES_AWAY):
                prepare(user)


def _ask(operation: Any, server: str, examples: int, mode: Any) -> None:
    names = st.sampled_from(NAMES) | st.none()

    @settings(
        max_examples=examples,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=mode), names)
    def ask(case: Any, name: str | None) -> None:
        if name is not None and "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = name
        answer = case.call(base_url=server, timeout=60)
        assert answer.status_code != 500 or case.path.startswith("/{version}"), (
            case.as_curl_command()
        )
        case.validate_response(answer, checks=CHECKS)

    ask()


def test_each_request_with_some_parameters(user: User) -> None:
    ask_all(user, 2, schemathesis.GenerationMode.POSITIVE)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode))
def test_each_request_with_many_parameters(user: User, mode: Any) -> None:
    ask_all(user, 60, mode)
