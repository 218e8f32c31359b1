"""Lives that end at one of the writes that they make, before the write or after it, and are taken
up again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from parser.errors import SqlError
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.engine import Engine
from sqlengine.state.rocks_store import RocksStore
from tests.engine.by_hand import die

Outputs: TypeAlias = Mapping[str, list[str]]


class Death(BaseException):
    """The process ends here."""


@dataclass
class CrashAtWrite:
    """Counts writes, and ends the life at one of them."""

    at: int = -1
    after: bool = False
    writes: int = 0

    def around(self, write: Callable[..., object]) -> Callable[..., object]:
        def fateful(*args: object, **options: object) -> object:
            self.writes += 1
            mine = self.writes == self.at
            if mine and not self.after:
                raise Death
            result = write(*args, **options)
            if mine:
                raise Death
            return result

        return fateful


@contextmanager
def crash_at_write(chosen: CrashAtWrite) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedBroker, "append", chosen.around(EmbeddedBroker.append))
        patch.setattr(RocksStore, "put", chosen.around(RocksStore.put))
        yield


@dataclass(frozen=True)
class Life:
    """`begin` follows each opening of the engine; an operation may be done already: the life before
    may have died behind it."""

    open_engine: Callable[[], Engine]
    operations: Sequence[Callable[[Engine], object]]
    outputs: Callable[[Engine], Outputs]
    begin: Callable[[Engine], object] = lambda engine: None

    def live(self, chosen: CrashAtWrite) -> Outputs:
        """What comes out of a life that dies where its fate says, and is taken up again."""
        done = 0
        while True:
            engine = None
            try:
                with crash_at_write(chosen):
                    engine = self.open_engine()
                    self.begin(engine)
                    for operation in self.operations[done:]:
                        operation(engine)
                        done += 1
                    return self.outputs(engine)
            except Death:
                pass
            finally:
                if engine is not None:
                    die(engine)


def check_deaths(
    folder: Path, live: Callable[[Path, int, bool], Outputs], expected: Outputs, points: range
) -> None:
    """Lives in folders of their own that die at these writes, before and after each."""
    failures: list[object] = []
    for at in points:
        for after in (False, True):
            try:
                found = live(folder / f"{at}-{after}", at, after)
            except (SqlError, KeyError, AssertionError, RuntimeError) as error:
                failures.append((at, after, repr(error)[:300]))
                continue
            failures += [
                (at, after, n, expected[n], found[n]) for n in expected if found[n] != expected[n]
            ]
    assert not failures, f"{len(failures)}: " + "\n".join(map(str, failures))


def check_every_death(
    folder: Path, live: Callable[[Path, CrashAtWrite], Outputs], points: Callable[[int], range]
) -> Outputs:
    """Checks that lives which die at `points`, of all writes, come to the outputs of one that does
    not die; returns these."""
    quiet = CrashAtWrite()
    expected = live(folder / "quiet", quiet)
    assert all(expected.values())
    check_deaths(
        folder,
        lambda place, at, after: live(place, CrashAtWrite(at, after)),
        expected,
        points(quiet.writes),
    )
    return expected
