"""Sigma rules as values: what they match, what they say of themselves, and how they refer to each
other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias


class Wildcard(Enum):
    """A sign for any text, or for one character."""

    MANY = "*"
    ONE = "?"


@dataclass(frozen=True)
class Placeholder:
    """A name that the mapping gives values."""

    name: str


TextPart: TypeAlias = str | Wildcard | Placeholder


@dataclass(frozen=True)
class Text:
    """A text with wildcards; case matters where it is `cased`."""

    parts: tuple[TextPart, ...]
    cased: bool = False


@dataclass(frozen=True)
class Number:
    value: int | float


@dataclass(frozen=True)
class Truth:
    value: bool


@dataclass(frozen=True)
class Null:
    """The field has no value."""


@dataclass(frozen=True)
class Exists:
    """The field has a value, or (not `wanted`) has none."""

    wanted: bool


@dataclass(frozen=True)
class Regex:
    """A regular expression that is found anywhere; `flags` are of "ims"."""

    parts: tuple[str | Placeholder, ...]
    flags: str = ""


@dataclass(frozen=True)
class Network:
    """Addresses in a network such as 10.0.0.0/8."""

    cidr: str


@dataclass(frozen=True)
class Comparison:
    """A number by its order: `operator` as SQL writes it. `part`: of which part of a time."""

    operator: str
    value: int | float
    part: str | None = None


@dataclass(frozen=True)
class FieldReference:
    """The value of another field, at the start, at the end, or (both) anywhere."""

    field: str
    starts: bool = False
    ends: bool = False


@dataclass(frozen=True)
class AnyOf:
    """Values that a modifier made of one: any of them is meant, also where all of a list are."""

    values: tuple[Value, ...]


Value: TypeAlias = (
    Text | Number | Truth | Null | Exists | Regex | Network | Comparison | FieldReference | AnyOf
)


@dataclass(frozen=True)
class Match:
    """A field has a value; without a field (None) the event has it anywhere."""

    field: str | None
    value: Value


@dataclass(frozen=True)
class All:
    children: tuple[Condition, ...]


@dataclass(frozen=True)
class Some:
    children: tuple[Condition, ...]


@dataclass(frozen=True)
class Not:
    child: Condition


Condition: TypeAlias = Match | All | Some | Not


@dataclass(frozen=True)
class LogSource:
    category: str | None = None
    product: str | None = None
    service: str | None = None

    def __str__(self) -> str:
        parts = (("category", self.category), ("product", self.product), ("service", self.service))
        return ", ".join(f"{name} {value}" for name, value in parts if value)

    def within(self, other: LogSource) -> bool:
        """True if all that the other one says is said here, too."""
        wanted = (other.category, other.product, other.service)
        own = (self.category, self.product, self.service)
        return all(w is None or w == o for w, o in zip(wanted, own, strict=True))


@dataclass(frozen=True)
class About:
    """A rule's words about itself. `file`: where it was read, `place`: its number there from 1;
    `more`: other attributes, as text."""

    title: str
    id: str = ""
    name: str = ""
    level: str = ""
    status: str = ""
    description: str = ""
    author: str = ""
    tags: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    false_positives: tuple[str, ...] = ()
    more: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    place: int = 1

    @property
    def key(self) -> str:
        """Its id, else its name, else its title."""
        return self.id or self.name or self.title

    @property
    def origin(self) -> tuple[str, int]:
        return self.file, self.place

    def called(self, reference: str) -> bool:
        return reference in (self.id, self.name) and bool(reference)


@dataclass(frozen=True)
class Rule:
    """A rule over single events."""

    about: About
    source: LogSource
    condition: Condition


@dataclass(frozen=True)
class Filter:
    """A condition that rules of a log source have to meet, too: those in `rules`, None for all."""

    about: About
    source: LogSource
    rules: tuple[str, ...] | None
    condition: Condition


@dataclass(frozen=True)
class Of:
    """A rule that takes part, in the condition of a temporal correlation."""

    rule: str


@dataclass(frozen=True)
class Combined:
    """AND or OR of such conditions; NOT has one."""

    operator: str
    children: tuple[Combination, ...]


Combination: TypeAlias = Of | Combined


@dataclass(frozen=True)
class Correlation:
    """Events of several rules within a time. `kind`: as Sigma calls it; `operator` and `number`:
    what is said of the count or metric; `fields`: those that are counted or added up; `aliases`:
    name -> rule -> field; `combination`: what rules must be there, for temporal ones that say so;
    `generate`: its rules give alerts of their own, too."""

    about: About
    kind: str
    rules: tuple[str, ...]
    seconds: int
    group_by: tuple[str, ...] = ()
    operator: str = ">="
    number: int | float = 1
    fields: tuple[str, ...] = ()
    percentile: int | None = None
    aliases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    combination: Combination | None = None
    generate: bool = False


@dataclass(frozen=True)
class Unread:
    """A document that is no rule, and why."""

    about: About
    reason: str


Document: TypeAlias = Rule | Filter | Correlation | Unread


def matches_of(condition: Condition) -> Iterator[Match]:
    """Yields the matches of a condition, in order."""
    match condition:
        case Match():
            yield condition
        case Not(child):
            yield from matches_of(child)
        case All(children) | Some(children):
            for child in children:
                yield from matches_of(child)


def fields_of(condition: Condition) -> tuple[str, ...]:
    """The fields that a condition reads, each once."""
    found: dict[str, None] = {}
    for each in matches_of(condition):
        if each.field is not None:
            found[each.field] = None
        for value in each.value.values if isinstance(each.value, AnyOf) else (each.value,):
            if isinstance(value, FieldReference):
                found[value.field] = None
    return tuple(found)
