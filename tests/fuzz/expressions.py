"""Random expressions of a wanted type over the columns in reach."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.fuzz.data import Column
from tests.fuzz.forms import ANY, COMPARED, FORMS, KEYS, LITERALS, PATTERNS, TYPES

Scope = Sequence[Column]
Form = Callable[["Expressions", Scope, str, int], str]


@dataclass
class Expressions:
    """Writes expressions; everything comes from `rng`."""

    rng: Random

    def of(self, scope: Scope, kind: str, depth: int = 2) -> str:
        """An expression of the kind."""
        columns = [c.name for c in scope if c.kind == kind]
        if depth <= 0 or self.rng.random() < 0.35 or kind not in _FORMS:
            if columns and self.rng.random() < 0.85:
                return self.rng.choice(columns)
            if kind in LITERALS:
                return self.rng.choice(LITERALS[kind])
            if kind in TYPES:
                return f"CAST(NULL AS {TYPES[kind]})"
        there = {c.kind for c in scope}
        forms = [f for f, needs in _FORMS[kind] if needs <= there]
        if kind in TYPES:
            forms += _ANY if kind in KEYS else _ANY[1:]
        return self.rng.choice(forms)(self, scope, kind, depth - 1)

    def condition(self, scope: Scope, depth: int = 2) -> str:
        """A condition that looks at a column."""
        kinds = [c.kind for c in scope if c.kind in COMPARED] or ["INT"]
        kind = self.rng.choice(kinds)
        forms: list[Callable[[], str]] = [
            lambda: f"{self.of(scope, kind, 1)} {self.sign()} {self.of(scope, kind, 1)}",
            lambda: f"{self.column(scope, kind)} {self.sign()} {self.rng.choice(LITERALS[kind])}",
            lambda: f"{self.column(scope, kind)} IS {self.rng.choice(('NULL', 'NOT NULL'))}",
            lambda: self._list(scope, kind),
            lambda: (
                f"{self.column(scope, kind)} IS {self.rng.choice(('', 'NOT '))}DISTINCT FROM"
                f" {self.of(scope, kind, 1)}"
            ),
        ]
        if depth > 0:
            forms += [
                lambda: (
                    f"({self.condition(scope, depth - 1)} AND {self.condition(scope, depth - 1)})"
                ),
                lambda: (
                    f"({self.condition(scope, depth - 1)} OR {self.condition(scope, depth - 1)})"
                ),
                lambda: f"NOT ({self.condition(scope, depth - 1)})",
                lambda: (
                    f"({self.condition(scope, 0)}) IS"
                    f" {self.rng.choice(('TRUE', 'NOT TRUE', 'FALSE', 'UNKNOWN'))}"
                ),
                lambda: (
                    f"{self.column(scope, kind)} BETWEEN {self.of(scope, kind, 0)} AND"
                    f" {self.of(scope, kind, 0)}"
                ),
                lambda: f"{self.of(scope, 'STRING', 1)} LIKE {self.rng.choice(PATTERNS)}",
                lambda: self.of(scope, "BOOLEAN", depth),
            ]
        return self.rng.choice(forms)()

    def column(self, scope: Scope, kind: str) -> str:
        """A column of the kind if there is one."""
        return self.rng.choice(
            [c.name for c in scope if c.kind == kind] or [self.of(scope, kind, 0)]
        )

    def sign(self) -> str:
        return self.rng.choice(("=", "<>", "<", "<=", ">", ">="))

    def _list(self, scope: Scope, kind: str) -> str:
        values = self.rng.sample(LITERALS[kind], min(len(LITERALS[kind]), self.rng.randint(1, 3)))
        return (
            f"{self.column(scope, kind)} {self.rng.choice(('IN', 'NOT IN'))} ({', '.join(values)})"
        )


def _template(text: str) -> tuple[Form, set[str]]:
    """The form, and the kinds of columns that there must be."""

    def write(own: Expressions, scope: Scope, kind: str, depth: int) -> str:
        found = text.replace("{SAME}", "{" + kind + "}")
        while place := _PLACE.search(found):
            name = place[1]
            made = (
                own.condition(scope, depth - 1) if name == "BOOLEAN" else own.of(scope, name, depth)
            )
            found = found[: place.start()] + made + found[place.end() :]
        return found

    return write, set(_PLACE.findall(text)) & _NEEDED


_PLACE = re.compile(r"\{([A-Z]+)\}")
_NEEDED = {"BYTES", "MAP", "ROW", "ROWS", "TIME", "LTZ"}
_ANY = [_template(text)[0] for text in ANY]
_FORMS = {kind: [_template(text) for text in texts] for kind, texts in FORMS.items()}
