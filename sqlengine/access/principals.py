"""Principals and what they were given: roles, patterns of names, quotas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeAlias

Patterns: TypeAlias = tuple[str, ...]

EVERYTHING: Final[Patterns] = ("*",)
# Those that reach nothing but topics and the log of the server.
HARMLESS: Final[Patterns] = ("topic", "datagen", "blackhole", "memory", "print")


class Role(StrEnum):
    """A role. `admin` may do everything, whatever its patterns; `submit` may do what `read` may."""

    READ = "read"
    WRITE = "write"
    SUBMIT = "submit"
    ADMIN = "admin"


@dataclass(frozen=True)
class Quota:
    """The most that a principal may have: jobs, bytes of state of all its jobs, bytes a second that
    it appends to topics. None for any."""

    jobs: int | None = None
    state: int | None = None
    append_rate: int | None = None


class Exceeded(StrEnum):
    """The fate of a job that is over its budget, the mildest first."""

    WARN = "warn"
    ISOLATE = "isolate"
    STOP = "stop"


@dataclass(frozen=True)
class Budget:
    """The most that a job may cost: CPU time for an event (µs), bytes of state; None for any."""

    cpu_us: float | None = None
    state: int | None = None
    exceeded: Exceeded = Exceeded.WARN

    def within(self, other: Budget) -> Budget:
        """Returns the lesser of two budgets, with what is the harder for the job."""
        of_cpu = [us for us in (self.cpu_us, other.cpu_us) if us is not None]
        of_state = [size for size in (self.state, other.state) if size is not None]
        harder = max(self.exceeded, other.exceeded, key=list(Exceeded).index)
        return Budget(min(of_cpu, default=None), min(of_state, default=None), harder)


@dataclass(frozen=True)
class Grant:
    """Roles, and the names that they hold for.

    `read_topics`, `write_topics`: never those of the system, which are the administrators'.
    `functions`: of users, as MODULE.NAME; `secrets`: to which options of tables may refer."""

    roles: frozenset[Role] = frozenset()
    jobs: Patterns = EVERYTHING
    read_topics: Patterns = EVERYTHING
    write_topics: Patterns = EVERYTHING
    connectors: Patterns = HARMLESS
    functions: Patterns = EVERYTHING
    secrets: Patterns = ()


@dataclass(frozen=True)
class Principal:
    """Somebody who may do what one of the grants allows. `name` is '' for who is not told apart:
    the holder of the only token, or a program that embeds the engine. `budget`: of each of its
    jobs. `decided`: what was decided for it before, which stays so: other grants are another
    principal."""

    name: str
    grants: tuple[Grant, ...] = ()
    quota: Quota = field(default_factory=Quota)
    budget: Budget = field(default_factory=Budget)
    decided: dict[object, object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def is_admin(self) -> bool:
        return any(Role.ADMIN in grant.roles for grant in self.grants)

    @property
    def shown(self) -> str:
        """The principal in messages."""
        return f"principal '{self.name}'" if self.name else "this client"


TRUSTED: Final = Principal("", (Grant(frozenset({Role.ADMIN})),))
NOBODY: Final = Principal("")


def combined(quotas: Iterable[Quota]) -> Quota:
    """Returns the most that one of several quotas allows of each."""
    found = list(quotas)

    def most(numbers: Iterable[int | None]) -> int | None:
        given = list(numbers)
        return None if None in given or not given else max(n for n in given if n is not None)

    return Quota(
        most(q.jobs for q in found),
        most(q.state for q in found),
        most(q.append_rate for q in found),
    )


def widest(budgets: Iterable[Budget]) -> Budget:
    """Returns the most that one of several budgets allows of each."""
    found = list(budgets) or [Budget()]
    of_cpu = [b.cpu_us for b in found if b.cpu_us is not None]
    of_state = [b.state for b in found if b.state is not None]
    return Budget(
        max(of_cpu) if len(of_cpu) == len(found) else None,
        max(of_state) if len(of_state) == len(found) else None,
        min((b.exceeded for b in found), key=list(Exceeded).index),
    )
