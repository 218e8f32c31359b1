"""What all tests share: `--update`, the sibling folder, a real Flink, and the number of skipped
tests at the end."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

from sqlengine.connectors.boundary import source as boundary_of_sources
from sqlengine.executors.steps.guard import StepInterrupted
from sqlengine.system.deadlines import Overdue
from tests.support import load_oracle, oracle_missing, shared_folder

# Folders whose files share a server in Java.
SHARED_SERVERS = ("tests/connectors/kafka", "tests/connectors/rocketmq")
# The same examples in every run; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collects thousands of tests without the cyclic collector, which finds nothing in them, then or
    later. While they run it looks at old objects less often than Python does by itself, which saves
    half of its time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(2000, 50, 100)
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with hundreds of tests come first: processes that run files side by side end together. All
    others stay as they are, so that those of one folder, which wait for servers, run beside others that
    compute."""
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: -(tests[item.path] // 100))


class ByServer(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each file to one process, and those that share a server to one process, too: it would start
    in each."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::")[0]
        folder = path.rpartition("/")[0]
        return folder if folder in SHARED_SERVERS else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByServer | None:
    return ByServer(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names tests by the place of their bytes, not by the bytes: what is compressed has the time in it,
    and processes that run tests side by side must find the same names."""
    return argname if isinstance(val, bytes) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update",
        action="store_true",
        help="write what came out into the data files of the tests; review the diff",
    )


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """A graph goes on without a file that does not answer within a tenth of a second. Tests that say
    which rows come in which epoch must not depend on how busy the machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boundary_of_sources, "_PATIENCE_S", (2.0, 0.001))
        yield


@pytest.fixture(scope="module", autouse=True)
def as_before() -> Iterator[None]:
    """An engine switches threads more often than Python does by itself, for the rest of its process:
    with threads of many tests in one process that is what it does most of the time."""
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)


@pytest.fixture(scope="session", autouse=True)
def lost_interrupts() -> Iterator[None]:
    """An interrupt may strike a callback of the collector, which tells it to nobody: it comes again
    then. pytest would let the test fail that runs."""
    tell = sys.unraisablehook

    def tell_others(found: sys.UnraisableHookArgs) -> None:
        if not issubclass(found.exc_type, Overdue | StepInterrupted):
            tell(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "unraisablehook", tell_others)
        yield


@pytest.fixture(scope="session")
def update(request: pytest.FixtureRequest) -> bool:
    """True when data tests are to write their expectations instead of comparing with them."""
    return bool(request.config.getoption("--update"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The sibling folder `shared`; tests that need it are skipped where it is missing."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("the folder ../shared is not there")
    return folder


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real Flink in a JVM of its own, started once for all tests that are marked `oracle`."""
    reason = oracle_missing()
    if reason:
        pytest.skip(reason)
    with load_oracle().Oracle(log=tmp_path_factory.mktemp("flink") / "flink.log") as oracle:
        yield oracle
    oracle.jvm.stdout.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Skips are easily overlooked: count them by reason."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    terminalreporter.write_line(f"number of skipped tests: {len(skipped)}")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"  {count} x {reason}")
