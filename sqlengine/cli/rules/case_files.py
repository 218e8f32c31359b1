"""Files of cases in what `sql test` is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from parser.errors import ParseError, ServiceError, SqlError
from sqlengine.control.scripts import SUFFIX

CASES: Final = ".test.yaml"  # as sqlengine.trial.cases has it, which takes long to load


def rule_of_cases(path: str) -> str:
    """Returns the rule beside a file of cases; any other path as it is."""
    if not path.endswith(CASES) or Path(path).is_dir():
        return path
    rule = path.removesuffix(CASES) + SUFFIX
    if not Path(rule).is_file():
        raise ServiceError(f"there is no '{rule}' beside '{path}'")
    return rule


def cases_of_no_rule(paths: Sequence[str], read: set[Path]) -> Mapping[str, SqlError]:
    """Returns errors for files of cases in folders that no rule has, by their paths: nobody would
    miss them."""
    files = {file for path in paths for file in Path(path).rglob(f"*{CASES}")}
    return {
        str(file): ParseError(
            f"'{file}' has cases of no rule",
            hint=f"call it as its rule's file, or name it in the rule's head: 'tests: {file.name}'",
        )
        for file in sorted(files)
        if file.absolute() not in read and not file.with_suffix("").with_suffix(SUFFIX).is_file()
    }
