"""LIKE as Flink has it: `%` any sequence, line breaks too, `_` exactly one character, and no escape unless declared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import regex

from parser.errors import SqlError

Gap: TypeAlias = tuple[int, bool]


@dataclass(frozen=True)
class LikePattern:
    """`literals[0] gap[0] literals[1] …`; a gap is (characters at least, any more). The inner literals are not empty,
    so equal patterns written differently (`%%a`, `%a`) are equal values."""

    literals: tuple[str, ...]
    gaps: tuple[Gap, ...]

    @property
    def equality(self) -> str | None:
        """The only text that matches, where there is one."""
        return self.literals[0] if not self.gaps else None

    @property
    def anything(self) -> bool:
        """Whether every text matches."""
        return self.literals == ("", "") and self.gaps == ((0, True),)

    @property
    def longest(self) -> str:
        """A literal that each matching text contains ('' when there is none)."""
        return max(self.literals, key=len)

    def simple(self) -> tuple[str, str] | None:
        """('contains' | 'prefix' | 'suffix', literal) where the pattern says no more than that."""
        if any(gap != (0, True) for gap in self.gaps):
            return None
        match self.literals:
            case (prefix, "") if prefix:
                return "prefix", prefix
            case ("", suffix) if suffix:
                return "suffix", suffix
            case ("", literal, ""):
                return "contains", literal
        return None

    @cached_property
    def _blocks(self) -> list[tuple[int, regex.Pattern[str]]]:
        """What stands between open gaps, each with the characters that the gap before it needs."""
        blocks: list[tuple[int, str]] = [(0, regex.escape(self.literals[0]))]
        for (least, is_open), literal in zip(self.gaps, self.literals[1:], strict=True):
            text = regex.escape(literal)
            if is_open:
                blocks.append((least, text))
            else:
                blocks[-1] = (blocks[-1][0], f"{blocks[-1][1]}.{{{least}}}{text}")
        blocks[-1] = (blocks[-1][0], blocks[-1][1] + r"\Z")
        return [(least, regex.compile(text, regex.DOTALL)) for least, text in blocks]

    def matches(self, text: str) -> bool:
        """Takes each block as far left as it goes, which is exact, and never tries again: the time is linear in
        the text for each block."""
        found = self._blocks[0][1].match(text)
        if found is None:
            return False
        for least, block in self._blocks[1:]:
            start = found.end() + least
            if start > len(text):
                return False
            found = block.search(text, start)
            if found is None:
                return False
        return True


def parse_like(pattern: str, escape: str | None = None) -> LikePattern:
    """SqlError where the escape is not one character, or stands before something other than `%`, `_` or itself."""
    if escape is not None and len(escape) != 1:
        raise SqlError(
            f"the escape of LIKE must be one character, not '{escape}'", hint="write for example ESCAPE '\\'"
        )
    literals, gaps, current, gap = [], [], [], None
    i = 0
    while i < len(pattern):
        char = pattern[i]
        if char == escape:
            i += 1
            if i == len(pattern) or pattern[i] not in ("%", "_", escape):
                raise _bad_escape(pattern, escape, i)
            char, wildcard = pattern[i], False
        else:
            wildcard = char in "%_"
        i += 1
        if wildcard:
            if gap is None:
                literals.append("".join(current))
                current, gap = [], (0, False)
            gap = (gap[0] + (char == "_"), gap[1] or char == "%")
            continue
        if gap is not None:
            gaps.append(gap)
            gap = None
        current.append(char)
    if gap is not None:
        gaps.append(gap)
    literals.append("".join(current))
    return LikePattern(tuple(literals), tuple(gaps))


def _bad_escape(pattern: str, escape: str, at: int) -> SqlError:
    return SqlError(
        f"invalid escape sequence in LIKE pattern '{pattern}'",
        detail=f"character {at} is the escape '{escape}', but what follows is not '%', '_' or '{escape}'",
        hint=f"double it to match '{escape}' itself",
    )
