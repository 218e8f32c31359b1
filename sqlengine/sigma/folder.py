"""A folder of Sigma rules: files, the mapping (`_sigma.yaml`) and the tables (`_tables.sql`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parser.errors import ServiceError
from sqlengine.sigma.conversion import Conversion, Done, convert_all
from sqlengine.sigma.files import MAPPING, TABLES, is_rule_file
from sqlengine.sigma.mappings import DEFAULT, Mappings, load_mappings, read_mapping
from sqlengine.sigma.rules import Document
from sqlengine.sigma.ruleset import Ruleset, ruleset
from sqlengine.sigma.sources import Sources
from sqlengine.sigma.tables import EventTable, defined_tables


def rule_files(folder: Path) -> Iterator[Path]:
    """Yields the files with rules below a folder, in order."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if is_rule_file(path.name) and not hidden and path.is_file():
            yield path


@dataclass
class FolderRules:
    """Knows the rules of a folder by their files, and converts again what has changed only. One
    thread at a time."""

    _documents: dict[str, tuple[str, list[Document]]] = field(default_factory=dict)
    _texts: tuple[str | None, str | None] | None = None
    _mappings: Mappings = field(default_factory=Mappings)
    _tables: Mapping[str, EventTable] = field(default_factory=dict)
    _done: dict[tuple[str, int], Done] = field(default_factory=dict)

    def convert(
        self, files: Mapping[str, str], mapping: str | None, tables: str | None, place: Path
    ) -> Conversion:
        """Converts files by their paths below the folder `place`, with the texts of the mapping and
        of the tables. SqlError where one of the latter is wrong."""
        self._set(mapping, tables, place)
        rules = self._rules(files)
        conversion = convert_all(rules, self._mappings, self._tables, self._done)
        self._done = {d.about.origin: d for d in conversion.done}
        return conversion

    def _set(self, mapping: str | None, tables: str | None, place: Path) -> None:
        if self._texts == (mapping, tables):
            return
        self._texts, self._done = None, {}
        if mapping is None:
            self._mappings = load_mappings(DEFAULT)
        else:
            self._mappings = read_mapping(mapping, str(place / MAPPING))
        self._tables = {} if tables is None else defined_tables(tables, str(place / TABLES))
        self._texts = mapping, tables

    def _rules(self, files: Mapping[str, str]) -> Ruleset:
        from sqlengine.sigma.parsing import read

        for name, text in files.items():
            if self._documents.get(name, ("", []))[0] != text:
                self._documents[name] = text, read(text, name)
        self._documents = {n: d for n, d in self._documents.items() if n in files}
        return ruleset(d for n in sorted(files) for d in self._documents[n][1])


@dataclass(frozen=True)
class Folder:
    """A folder as it was converted."""

    sources: Sources
    conversion: Conversion

    @property
    def rules(self) -> Ruleset:
        return self.sources.rules


def convert_folder(folder: Path, named: Sequence[str], tables: Path | None) -> Folder:
    """Converts a folder with the mappings that are named, else with its own, else with that of the
    taxonomy. SqlError where the mapping or the tables are wrong."""
    from sqlengine.sigma.parsing import read

    own = folder / MAPPING
    if named:
        mappings = load_mappings(named)
    elif own.is_file():
        mappings = read_mapping(_text(own), str(own))
    else:
        mappings = load_mappings(DEFAULT)
    file = tables or folder / TABLES
    if not file.is_file():
        raise ServiceError(
            f"'{file}' is not there",
            hint="define the tables of events and of alerts in it, or name another file: --tables",
        )
    known = defined_tables(_text(file), str(file))
    paths = list(rule_files(folder))
    if not paths:
        raise ServiceError(f"there is no file of rules (.yml, .yaml) in '{folder}'")
    documents: list[Document] = []
    for path in paths:
        documents += read(_text(path), path.relative_to(folder).as_posix())
    rules = ruleset(documents)
    return Folder(Sources(rules, mappings, known), convert_all(rules, mappings, known))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        detail = f"{error.reason} at byte {error.start}"
        raise ServiceError(f"'{path}' is not UTF-8", detail=detail) from None
    except OSError as error:
        raise ServiceError(f"'{path}' cannot be read", detail=error.strerror) from None
