"""Whole files with records, good and bad, and what real Flink makes of them; goldens/files.txt
holds the files.

`python -m tests.formats.record` asks for what is new, and with --all for everything (it needs Java
and ../shared)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GOLDENS = Path(__file__).parent / "goldens"
ANSWERS = GOLDENS / "files.json"
# What we say where that is something else.
OWN = GOLDENS / "files.ours.json"

_SIGNS = {"␀": b"\0", "␍": b"\r", "␛": b"\xef\xbb\xbf", "␣": b" "}
_BYTE = re.compile("⟨([0-9a-f]{2})⟩|([␀␍␛␣])")
_DIFFERS = "-- differs: "

# What a file gave: its rows, or that reading it fails.
Answer = list[list[Any]] | str
Answers = dict[str, dict[str, dict[str, Answer]]]


@dataclass(frozen=True)
class File:
    """`text` as it stands in the list; `differs` is the reason why we say something else than
    Flink."""

    text: str
    differs: str = ""

    @property
    def content(self) -> bytes:
        out = b""
        at = 0
        text = self.text.removesuffix("␄") if self.text.endswith("␄") else self.text + "\n"
        for found in _BYTE.finditer(text):
            out += text[at : found.start()].encode()
            out += bytes.fromhex(found[1]) if found[1] else _SIGNS[found[2]]
            at = found.end()
        return out + text[at:].encode()


@dataclass
class Case:
    """Files of one table; each of `variants` is a set of options (without the format's prefix)."""

    name: str
    format: str = ""
    columns: str = ""
    select: str = "*"
    variants: list[str] = field(default_factory=lambda: [""])
    files: list[File] = field(default_factory=list)

    def ddl(self, table: str, variant: str, path: Path) -> str:
        given = [part.split("=", 1) for part in variant.split(",") if part]
        options = "".join(
            f", '{self.format}.{k}' = '{v.replace(chr(39), chr(39) * 2)}'" for k, v in given
        )
        return (
            f"CREATE TEMPORARY TABLE {table} ({self.columns}) WITH ('connector' = 'filesystem',"
            f" 'path' = '{path}', 'format' = '{self.format}'{options});"
        )

    def query(self, table: str) -> str:
        return f"SELECT {self.select} FROM {table};"


def cases() -> list[Case]:
    """All cases of goldens/files.txt."""
    parts = (GOLDENS / "files.txt").read_text().split("\n=== ")[1:]
    return [_case(part.removesuffix("\n").split("\n")) for part in parts]


def _case(lines: list[str]) -> Case:
    case = Case(lines[0])
    head = next(i for i, line in enumerate(lines) if line in ("each", "---"))
    for line in lines[1:head]:
        key, _, value = line.partition(" ")
        setattr(
            case,
            key,
            [v.strip() for v in f" {value} ".split(" ; ")] if key == "variants" else value,
        )
    case.files = list(
        _each(lines[head + 1 :]) if lines[head] == "each" else _several(lines[head + 1 :])
    )
    return case


def _each(lines: list[str]) -> Iterator[File]:
    reason = ""
    for line in lines:
        if line.startswith(_DIFFERS):
            reason = line.removeprefix(_DIFFERS)
        elif line:
            yield File(line, reason)
            reason = ""


def _several(lines: list[str]) -> Iterator[File]:
    for block in "\n".join(lines).split("\n---\n"):
        first, _, rest = block.partition("\n")
        differs = first.startswith(_DIFFERS)
        yield File(
            (rest if differs else block).removesuffix("\n"),
            first.removeprefix(_DIFFERS) if differs else "",
        )


def answers() -> Answers:
    """Case, variant, text of the file: what Flink says."""
    found: Answers = json.loads(ANSWERS.read_text())["cases"]
    return found


def own_answers() -> Answers:
    """The same of our own answers, where they differ on purpose."""
    found: Answers = json.loads(OWN.read_text())
    return found


def save_own(known: Answers, case: str, variant: str, different: dict[str, Answer]) -> None:
    held = {**known.get(case, {}), variant: different}
    known = {**known, case: {v: a for v, a in held.items() if a}}
    kept = {c.name: known[c.name] for c in cases() if known.get(c.name)}
    OWN.write_text(json.dumps(kept, ensure_ascii=True, indent=0) + "\n")


def ask(flink: Any, folder: Path, known: Answers) -> Iterator[tuple[Case, str, File, Answer]]:
    """Asks a real Flink for every file of every case, but for those whose answer is known."""
    number = 0
    for case in cases():
        for variant in case.variants:
            for file in case.files:
                held = known.get(case.name, {}).get(variant, {}).get(file.text)
                if held is not None:
                    yield case, variant, file, held
                    continue
                number += 1
                path = folder / str(number)
                path.write_bytes(file.content)
                script = (
                    "SET 'table.local-time-zone' = 'UTC'; SET 'parallelism.default' = '1';"
                    + case.ddl(f"t{number}", variant, path)
                )
                events = list(
                    flink.run(script + case.query(f"t{number}"), keep_going=True, timeout_s=60)
                )
                failed = any(e["kind"] == "error" for e in events)
                yield (
                    case,
                    variant,
                    file,
                    "error" if failed else [e["row"] for e in events if e["kind"] == "row"],
                )


def record(flink: Any, folder: Path, known: Answers) -> None:
    """Writes what Flink says."""
    found: Answers = {}
    for case, variant, file, answer in ask(flink, folder, known):
        found.setdefault(case.name, {}).setdefault(variant, {})[file.text] = answer

    ANSWERS.write_text(
        json.dumps({"flink": "2.3.0", "cases": found}, ensure_ascii=True, indent=0) + "\n"
    )
