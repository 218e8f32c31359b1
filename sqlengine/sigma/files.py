"""Names of the files in a folder of Sigma rules."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final

MAPPING: Final = "_sigma.yaml"
TABLES: Final = "_tables.sql"  # what the rules of a folder read and write
_SUFFIXES: Final = (".yml", ".yaml")
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]")


def is_rule_file(name: str) -> bool:
    """True for the name of a file with rules: not for what begins with `_` or a dot, nor for tests
    of rules."""
    path = PurePath(name)
    told_apart = name.startswith(("_", ".")) or path.stem.endswith(".test")
    return path.suffix in _SUFFIXES and not told_apart


def base_name(file: str) -> str:
    """Returns a path below a folder as the name of a job, which has less kinds of characters."""
    path = PurePath(file)
    stem = path.stem if path.suffix in _SUFFIXES else path.name
    return _NO_NAME.sub("_", ".".join((*path.parts[:-1], stem)))
