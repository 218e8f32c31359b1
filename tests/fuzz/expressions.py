"""Random expressions of a wanted type over the columns in reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.fuzz.data import Column

Scope = Sequence[Column]
COMPARED = ("INT", "BIGINT", "DECIMAL", "DOUBLE", "STRING", "DATE", "TIMESTAMP")
NUMBERS = ("INT", "BIGINT", "DECIMAL", "DOUBLE")
COMPUTED = (*NUMBERS, "STRING", "BOOLEAN")
_SPARE = {
    "INT": ("0", "1", "2", "-1"),
    "BIGINT": ("CAST(1 AS BIGINT)", "CAST(3 AS BIGINT)"),
    "DECIMAL": ("1.50", "0.25"),
    "DOUBLE": ("1.5E0", "CAST(0.5 AS DOUBLE)"),
    "STRING": ("'a'", "'b'", "''", "'ab'"),
    "BOOLEAN": ("TRUE", "FALSE"),
    "TIMESTAMP": ("TIMESTAMP '2024-05-01 10:00:05'",),
    "DATE": ("DATE '2024-05-01'",),
}


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
            if kind in _SPARE:
                return self.rng.choice(_SPARE[kind])
            return f"CAST(NULL AS {'ARRAY<INT>' if kind == 'ARRAY' else 'ROW<a INT, b STRING>'})"
        there = {c.kind for c in scope}
        forms = [f for f, needs in _FORMS[kind] if needs <= there]
        return self.rng.choice((*forms, *(f for f, _ in _ANY)))(self, scope, kind, depth - 1)

    def condition(self, scope: Scope, depth: int = 2) -> str:
        """A condition that looks at a column."""
        kinds = [c.kind for c in scope if c.kind in COMPARED] or ["INT"]
        kind = self.rng.choice(kinds)
        forms: list[Callable[[], str]] = [
            lambda: f"{self.of(scope, kind, 1)} {self.sign()} {self.of(scope, kind, 1)}",
            lambda: f"{self.column(scope, kind)} {self.sign()} {self.rng.choice(_SPARE[kind])}",
            lambda: f"{self.column(scope, kind)} IS {self.rng.choice(('NULL', 'NOT NULL'))}",
            lambda: self._list(scope, kind),
            lambda: (
                f"{self.column(scope, kind)} IS {self.rng.choice(('', 'NOT '))}DISTINCT FROM {self.of(scope, kind, 1)}"
            ),
        ]
        if depth > 0:
            forms += [
                lambda: f"({self.condition(scope, depth - 1)} AND {self.condition(scope, depth - 1)})",
                lambda: f"({self.condition(scope, depth - 1)} OR {self.condition(scope, depth - 1)})",
                lambda: f"NOT ({self.condition(scope, depth - 1)})",
                lambda: f"({self.condition(scope, 0)}) IS {self.rng.choice(('TRUE', 'NOT TRUE', 'FALSE', 'UNKNOWN'))}",
                lambda: f"{self.column(scope, kind)} BETWEEN {self.of(scope, kind, 0)} AND {self.of(scope, kind, 0)}",
                lambda: f"{self.of(scope, 'STRING', 1)} LIKE {self.rng.choice(_PATTERNS)}",
            ]
        return self.rng.choice(forms)()

    def column(self, scope: Scope, kind: str) -> str:
        """A column of the kind if there is one."""
        return self.rng.choice([c.name for c in scope if c.kind == kind] or [self.of(scope, kind, 0)])

    def sign(self) -> str:
        return self.rng.choice(("=", "<>", "<", "<=", ">", ">="))

    def _list(self, scope: Scope, kind: str) -> str:
        values = self.rng.sample(_SPARE[kind], min(len(_SPARE[kind]), self.rng.randint(1, 3)))
        return f"{self.column(scope, kind)} {self.rng.choice(('IN', 'NOT IN'))} ({', '.join(values)})"


_PATTERNS = ("'a%'", "'%b'", "'_'", "'%a%'", "''")
Form = Callable[[Expressions, Scope, str, int], str]


def _template(text: str) -> tuple[Form, set[str]]:
    """{INT}, {STRING}, {BOOLEAN} … are expressions of that kind; those of arrays and rows need a column that is one."""

    def write(own: Expressions, scope: Scope, kind: str, depth: int) -> str:
        found = text.replace("{SAME}", "{" + kind + "}")
        for name in _NAMES:
            while "{" + name + "}" in found:
                made = own.condition(scope, depth - 1) if name == "BOOLEAN" else own.of(scope, name, depth)
                found = found.replace("{" + name + "}", made, 1)
        return found

    return write, {kind for kind in ("ARRAY", "ROW") if "{" + kind + "}" in text}


_NAMES = ("INT", "BIGINT", "DECIMAL", "DOUBLE", "STRING", "BOOLEAN", "TIMESTAMP", "DATE", "ARRAY", "ROW")
_ANY = [
    _template("CASE WHEN {BOOLEAN} THEN {SAME} ELSE {SAME} END"),
    _template("CASE WHEN {BOOLEAN} THEN {SAME} END"),
    _template("COALESCE({SAME}, {SAME})"),
    _template("IF({BOOLEAN}, {SAME}, {SAME})"),
    _template("NULLIF({SAME}, {SAME})"),
]


def _forms(*texts: str) -> list[tuple[Form, set[str]]]:
    return [_template(t) for t in texts]


_FORMS: dict[str, list[tuple[Form, set[str]]]] = {
    "INT": _forms(
        "({INT} + {INT})",
        "({INT} - {INT})",
        "{INT} * 2",
        "ABS({INT})",
        "MOD({INT}, 3)",
        "{INT} % 2",
        "(- {INT})",
        "CHAR_LENGTH({STRING})",
        "CAST({BIGINT} AS INT)",
        "CAST({DECIMAL} AS INT)",
        "CARDINALITY({ARRAY})",
        "{ARRAY}[1]",
        "POSITION('a' IN {STRING})",
        "{INT} / NULLIF({INT}, 0)",
        "TRY_CAST({STRING} AS INT)",
        "SIGN({INT})",
        "GREATEST({INT}, {INT})",
        "CASE {STRING} WHEN 'a' THEN 1 WHEN 'b' THEN {INT} ELSE 0 END",
    ),
    "BIGINT": _forms(
        "({BIGINT} + {INT})",
        "CAST({INT} AS BIGINT)",
        "{BIGINT} * {BIGINT}",
        "EXTRACT(SECOND FROM {TIMESTAMP})",
        "YEAR({DATE})",
        "TIMESTAMPDIFF(SECOND, {TIMESTAMP}, {TIMESTAMP})",
        "MOD({BIGINT}, 4)",
    ),
    "DECIMAL": _forms(
        "({DECIMAL} + {DECIMAL})",
        "{DECIMAL} * {INT}",
        "CAST({INT} AS DECIMAL(10, 2))",
        "ROUND({DECIMAL}, 1)",
        "{DECIMAL} - {INT}",
        "FLOOR({DECIMAL})",
        "CEIL({DECIMAL})",
    ),
    "DOUBLE": _forms(
        "({DOUBLE} + {INT})",
        "{DOUBLE} * {DOUBLE}",
        "CAST({INT} AS DOUBLE)",
        "CAST({DECIMAL} AS DOUBLE)",
        "ABS({DOUBLE})",
        "FLOOR({DOUBLE})",
        "{DOUBLE} - {DECIMAL}",
    ),
    "STRING": _forms(
        "UPPER({STRING})",
        "{STRING} || {STRING}",
        "CONCAT({STRING}, '-', {STRING})",
        "SUBSTRING({STRING}, 1, 1)",
        "TRIM({STRING})",
        "CAST({INT} AS STRING)",
        "CAST({DECIMAL} AS STRING)",
        "REPLACE({STRING}, 'a', 'z')",
        "CAST({DATE} AS STRING)",
        "CAST({BOOLEAN} AS STRING)",
        "{ROW}.b",
        "CONCAT_WS('|', {STRING}, {STRING})",
        "DATE_FORMAT({TIMESTAMP}, 'HH:mm:ss')",
        "REVERSE({STRING})",
    ),
    "BOOLEAN": _forms("({BOOLEAN})", "({BOOLEAN} AND {BOOLEAN})", "NOT ({BOOLEAN})", "({BOOLEAN}) IS TRUE"),
    "TIMESTAMP": _forms(
        "{TIMESTAMP} + INTERVAL '1' MINUTE", "FLOOR({TIMESTAMP} TO MINUTE)", "CAST({DATE} AS TIMESTAMP(3))"
    ),
    "DATE": _forms("CAST({TIMESTAMP} AS DATE)", "{DATE} + INTERVAL '1' DAY"),
}
