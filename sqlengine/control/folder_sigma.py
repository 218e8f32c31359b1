"""Sigma's rules in the watched folder: files of YAML, of which a change
converts what it concerns."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from parser.errors import SqlError
from sqlengine.control.scripts import Listing, Moving, SourceFile, Stamp, checked_name, load
from sqlengine.sigma.files import MAPPING, TABLES

if TYPE_CHECKING:
    from sqlengine.sigma.conversion import Conversion, Done
    from sqlengine.sigma.folder import FolderRules


@dataclass
class RuleJobs:
    """The rules of a folder as jobs.

    `refused`: names of jobs whose rules cannot be one now; `unread`: files whose rules are not
    known; `taken`: the files as they were read."""

    jobs: dict[str, SourceFile] = field(default_factory=dict)
    problems: dict[Path, SqlError] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    taken: dict[Path, Stamp] = field(default_factory=dict)
    unread: set[Path] = field(default_factory=set)


class SigmaFiles:
    """Reads the rules of a folder. One thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known_rules: FolderRules | None = None
        self._read: dict[Path, tuple[Stamp, SourceFile]] = {}

    def read(self, listing: Listing, moving: frozenset[Path]) -> RuleJobs:
        """Returns the jobs of all rules. A file that is still being written counts as it was."""
        found = RuleJobs(taken=dict(listing.sigma))
        wanted = dict(listing.sigma)
        tables = self._folder / TABLES
        if tables in listing.files:
            wanted[tables] = listing.files[tables]
        files = {}
        for path, stamp in wanted.items():
            file = self._file(path, stamp, path in moving, found)
            if file is not None:
                files[path] = file
        self._read = {p: r for p, r in self._read.items() if p in wanted}
        try:
            self._convert(files, found)
        except SqlError as error:
            found.unread |= listing.sigma.keys()
            found.problems[self._place(error, listing)] = error
        return found

    def _place(self, error: SqlError, listing: Listing) -> Path:
        """Returns the file of an error that holds up all rules."""
        if error.position is not None and error.position.file is not None:
            return Path(error.position.file)
        mapping = self._folder / MAPPING
        return mapping if mapping in listing.sigma else min(listing.sigma, default=mapping)

    def _file(self, path: Path, stamp: Stamp, moves: bool, found: RuleJobs) -> SourceFile | None:
        known = self._read.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        try:
            if moves:
                raise Moving
            file = load(path, stamp)
        except Moving:  # the next look finds another stamp
            if found.taken.pop(path, None) is not None and known is not None:
                found.taken[path] = known[0]
            found.unread.add(path)
        except SqlError as error:
            found.problems[path] = error
            found.unread.add(path)
        else:
            self._read[path] = stamp, file
            return file
        return None if known is None else known[1]

    @property
    def _rules(self) -> FolderRules:
        # Loaded for the first rule: most folders have none.
        from sqlengine.sigma.folder import FolderRules

        self._known_rules = self._known_rules or FolderRules()
        return self._known_rules

    def _convert(self, files: dict[Path, SourceFile], found: RuleJobs) -> None:
        mapping = files.pop(self._folder / MAPPING, None)
        tables = files.pop(self._folder / TABLES, None)
        named = {p.relative_to(self._folder).as_posix(): f for p, f in files.items()}
        conversion = self._rules.convert(
            {n: f.text for n, f in named.items()},
            mapping.text if mapping else None,
            tables.text if tables else None,
            self._folder,
        )
        for done in conversion.converted:
            file = named[done.about.file]
            try:
                checked_name(done.job, file.path)
            except SqlError as error:
                found.problems[file.path] = error
                continue
            digest = hashlib.sha256(done.sql.encode()).hexdigest()
            found.jobs[done.job] = SourceFile(file.path, done.sql, digest, file.owner)
        self._refuse(conversion, named, found)

    def _refuse(
        self, conversion: Conversion, named: dict[str, SourceFile], found: RuleJobs
    ) -> None:
        """Keeps the reasons of rules that are no jobs: one for each file."""
        by_file: dict[str, list[Done]] = {}
        for done in conversion.refused:
            by_file.setdefault(done.about.file, []).append(done)
        for file, refused in by_file.items():
            first = refused[0].error
            assert first is not None
            if len(refused) > 1:
                told = "; ".join(f"{d.about.title}: {d.error}" for d in refused)
                first = type(first)(f"{len(refused)} rules cannot be converted", detail=told)
            found.problems[named[file].path] = first
            found.refused |= {d.job for d in refused}
