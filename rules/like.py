"""LIKE as Flink has it: `%` any sequence, line breaks too, `_` exactly one character, and no escape
unless declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import regex

from parser.errors import SqlError

Gap: TypeAlias = tuple[int, bool]


@dataclass(frozen=True)
class LikePattern:
    """`literals[0] gap[0] literals[1] …`; a gap is (characters at least, any more). The inner
    literals are not empty, so equal patterns written differently (`%%a`, `%a`) are equal values."""

    literals: tuple[str, ...]
    gaps: tuple[Gap, ...]

    @property
    def equality(self) -> str | None:
        """The only text that matches, where there is one."""
        return self.literals[0] if not self.gaps else None

    @property
    def anything(self) -> bool:
        """True if every text matches."""
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
    def _blocks(self) -> list[tuple[int, _Block]]:
        """The texts between open gaps, each with the number of characters that the gap before it
        needs."""
        # Blocks are cut at `%`; within one all distances are fixed.
        blocks: list[tuple[int, list[tuple[int, str]]]] = [(0, [(0, self.literals[0])])]
        for (least, is_open), literal in zip(self.gaps, self.literals[1:], strict=True):
            if is_open:
                blocks.append((least, [(0, literal)]))
            else:
                blocks[-1][1].append((least, literal))
        return [(least, _block(parts)) for least, parts in blocks]

    def matches(self, text: str) -> bool:
        """Takes each block as far left as it goes, which is exact, and never tries again: the time
        is linear in the text for each block."""
        # Head and tail are anchored, those between float.
        (_, head), *middle = self._blocks
        if not head.at(text, 0):
            return False
        if not middle:
            return head.length == len(text)
        end = head.length
        # The tail is tested last, at its only possible place.
        least, tail = middle.pop()
        # Leftmost is best: what is left of the text for the next blocks is then longest.
        for gap, block in middle:
            start = block.find(text, end + gap)
            if start < 0:
                return False
            end = start + block.length
        start = len(text) - tail.length
        return start >= end + least and tail.at(text, start)


@dataclass(frozen=True)
class _Block:
    """A literal; where it has `_` in it, `pattern` says what matches."""

    text: str
    length: int
    pattern: regex.Pattern[str] | None

    def at(self, text: str, start: int) -> bool:
        if self.pattern is None:
            return text.startswith(self.text, start)
        return self.pattern.match(text, start) is not None

    def find(self, text: str, start: int) -> int:
        """Returns the first start of the block from `start` on, -1 if there is none."""
        if self.pattern is None:
            return text.find(self.text, start)
        # `search` beyond the end would start at the end instead.
        match = self.pattern.search(text, start) if start <= len(text) else None
        return -1 if match is None else match.start()


def _block(parts: list[tuple[int, str]]) -> _Block:
    length = sum(gap + len(literal) for gap, literal in parts)
    if len(parts) == 1:
        return _Block(parts[0][1], length, None)
    pattern = "".join(
        (f".{{{gap}}}" if gap else "") + regex.escape(literal) for gap, literal in parts
    )
    return _Block("", length, regex.compile(pattern, regex.DOTALL))


def parse_like(pattern: str, escape: str | None = None) -> LikePattern:
    """SqlError where the escape is not one character, or stands before something other than `%`,
    `_` or itself."""
    if escape is not None and len(escape) != 1:
        raise SqlError(
            f"the escape of LIKE must be one character, not '{escape}'",
            hint="write for example ESCAPE '!'",
        )
    literals = [""]
    gaps: list[Gap] = []
    for char, wildcard in _characters(pattern, escape):
        if not wildcard:
            literals[-1] += char
        elif literals[-1] or not gaps:
            # A wildcard behind a literal, or at the very start, opens a gap; others widen the last
            # one: `%_%` is at least one, any more.
            gaps.append((int(char == "_"), char == "%"))
            literals.append("")
        else:
            least, is_open = gaps[-1]
            gaps[-1] = (least + (char == "_"), is_open or char == "%")
    return LikePattern(tuple(literals), tuple(gaps))


def _characters(pattern: str, escape: str | None) -> Iterator[tuple[str, bool]]:
    """Yields each character, and whether it is a wildcard."""
    if escape is None:
        yield from ((c, c in "%_") for c in pattern)
        return
    i = 0
    while i < len(pattern):
        char = pattern[i]
        if char == escape:
            i += 1
            if pattern[i : i + 1] not in ("%", "_", escape):
                raise _bad_escape(pattern, escape, i)
            yield pattern[i], False
        else:
            yield char, char in "%_"
        i += 1


def _bad_escape(pattern: str, escape: str, at: int) -> SqlError:
    return SqlError(
        f"invalid escape sequence in LIKE pattern '{pattern}'",
        detail=(
            f"character {at} is the escape '{escape}', but what follows is not '%', '_' or"
            f" '{escape}'"
        ),
        hint=f"double it to match '{escape}' itself",
    )
