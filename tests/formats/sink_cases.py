"""Values of every type, and the records that real Flink writes; goldens/sinks.txt holds the
values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GOLDENS = Path(__file__).parent / "goldens"
ANSWERS = GOLDENS / "sinks.json"
_DIFFERS = "-- differs: "


@dataclass(frozen=True)
class Value:
    """A SQL value; `differs` is the reason why we write something else than Flink."""

    text: str
    differs: str = ""


@dataclass
class Case:
    """Values of one type, written in each of `formats` with each of the variants that are
    theirs."""

    name: str
    type: str = ""
    source: str = "sql"
    formats: list[str] = field(default_factory=list)
    variants: list[str] = field(default_factory=lambda: [""])
    values: list[Value] = field(default_factory=list)

    def forms(self) -> Iterator[tuple[str, str]]:
        """Format and options (without the format's prefix)."""
        for name in self.formats:
            for variant in self.variants:
                owner, _, options = variant.partition(" ")
                if not variant or owner == name:
                    yield name, options

    def script(self, table: str, form: tuple[str, str], value: str, path: Path) -> str:
        """One table of the value's type in a column between two others, and one row in it."""
        name, variant = form
        pairs = [part.split("=", 1) for part in variant.split(",") if part]
        options = "".join(f", '{name}.{k}' = '{v.replace(chr(39), chr(39) * 2)}'" for k, v in pairs)
        columns = f"v {self.type}" if name == "raw" else f"i INT, v {self.type}, j INT"
        item = f"CAST({value} AS {self.type})" if self.source == "sql" else "v"
        row = item if name == "raw" else f"1, {item}, CAST(NULL AS INT)"
        given, read = path.with_name(path.name + ".json"), f"{table}_given"
        if self.source == "json":
            given.write_text(f'{{"v": {value}}}\n')
        return (
            f"CREATE TEMPORARY TABLE {read} (v {self.type}) WITH ('connector' = 'filesystem',"
            f" 'path' = '{given}', 'format' = 'json'); CREATE TEMPORARY TABLE {table} ({columns})"
            f" WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = '{name}'{options});"
            f" INSERT INTO {table} SELECT {row}"
            + (f" FROM {read};" if self.source == "json" else ";")
        )


def cases() -> list[Case]:
    """All cases of goldens/sinks.txt."""
    parts = (GOLDENS / "sinks.txt").read_text().split("\n=== ")[1:]
    return [_case(part.strip("\n").split("\n")) for part in parts]


def _case(lines: list[str]) -> Case:
    case = Case(lines[0])
    head = lines.index("values")
    for line in lines[1:head]:
        key, _, value = line.partition(" ")
        setattr(
            case,
            key,
            value if key in ("type", "source") else [v.strip() for v in f" {value} ".split(" ; ")],
        )
    reason = ""
    for line in lines[head + 1 :]:
        if line.startswith(_DIFFERS):
            reason = line.removeprefix(_DIFFERS)
        else:
            case.values.append(Value(line, reason))
            reason = ""
    return case


def written(folder: Path) -> str:
    """What stands in the files of a table's folder, byte for byte."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.startswith(".")]
    return b"".join(p.read_bytes() for p in files).decode("latin-1")


def key(form: tuple[str, str]) -> str:
    return " ".join(form).strip()


def answers() -> dict[str, dict[str, dict[str, str]]]:
    """Case, form, value: what Flink wrote (bytes as Latin-1), or 'error'."""
    found: dict[str, dict[str, dict[str, str]]] = json.loads(ANSWERS.read_text())["cases"]
    return found


def ask(
    flink: Any, folder: Path, known: dict[str, dict[str, dict[str, str]]]
) -> Iterator[tuple[Case, tuple[str, str], Value, str]]:
    """Asks a real Flink for every value in every form, but for those whose answer is known."""
    number = 0
    for case in cases():
        for form in case.forms():
            for value in case.values:
                held = known.get(case.name, {}).get(key(form), {}).get(value.text)
                if held is not None:
                    yield case, form, value, held
                    continue
                number += 1
                path = folder / f"s{number}"
                script = (
                    "SET 'table.local-time-zone' = 'UTC'; SET 'parallelism.default' = '1';"
                    + case.script(f"s{number}", form, value.text, path)
                )
                events = list(flink.run(script, keep_going=True, timeout_s=60))
                failed = any(e["kind"] == "error" for e in events)
                yield case, form, value, "error" if failed else written(path)


def record(flink: Any, folder: Path, known: dict[str, dict[str, dict[str, str]]]) -> None:
    """Writes what Flink says."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for case, form, value, answer in ask(flink, folder, known):
        found.setdefault(case.name, {}).setdefault(key(form), {})[value.text] = answer

    ANSWERS.write_text(
        json.dumps({"flink": "2.3.0", "cases": found}, ensure_ascii=True, indent=0) + "\n"
    )
