"""The libraries that `pip install sqlengine` brings, with those of its extras that are installed
here."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support import ROOT

# What metadata says in words, as SPDX says it.
_CLASSIFIERS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Zope Public License": "ZPL-2.1",
}


@dataclass(frozen=True)
class Library:
    """An installed distribution."""

    distribution: metadata.Distribution
    extras: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return canonicalize_name(self.distribution.metadata["Name"])

    @property
    def version(self) -> str:
        return self.distribution.version

    @cached_property
    def licence(self) -> str:
        """The licence as SPDX writes it, 'BSD' where nothing tells which; '' if there is none."""
        said = self.distribution.metadata
        if "License-Expression" in said:
            return str(said["License-Expression"])
        kinds = [c.split(" :: ")[-1] for c in said.get_all("Classifier", []) if _is_licence(c)]
        if kinds:
            return " AND ".join(_CLASSIFIERS.get(kind, kind) for kind in kinds)
        told = str(said.get_all("License", [""])[0]).partition("\n")[0].strip()
        return _CLASSIFIERS.get(told, told)

    @cached_property
    def requires(self) -> tuple[Requirement, ...]:
        """What it needs here."""
        found = [Requirement(text) for text in self.distribution.requires or ()]
        return tuple(r for r in found if _applies(r, self.extras))


def _is_licence(classifier: str) -> bool:
    return classifier.startswith("License :: ") and classifier != "License :: OSI Approved"


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": e}) for e in ("", *extras))


def declared() -> tuple[list[Requirement], list[Requirement]]:
    """What `pyproject.toml` requires: always, and for extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    return [Requirement(t) for t in project["dependencies"]], [Requirement(t) for t in extras]


def libraries() -> dict[str, Library]:
    """All libraries by name, sorted. Raises PackageNotFoundError if a required one is missing."""
    always, extras = declared()
    found: dict[str, Library] = {}
    waiting = [*always, *(r for r in extras if _is_installed(r.name))]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        known = found[name].extras if name in found else None
        wanted = frozenset(requirement.extras) | (known or frozenset())
        if known is None or wanted != known:
            found[name] = Library(metadata.distribution(requirement.name), wanted)
            waiting += found[name].requires
    return dict(sorted(found.items()))


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def locked() -> Iterator[tuple[str, str, int]]:
    """Yields (name, version, number of hashes) of each library in `requirements/*.txt`."""
    for path in sorted((ROOT / "requirements").glob("*.txt")):
        text = path.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
            name, _, rest = line.partition("==")
            yield canonicalize_name(name), rest.split()[0], line.count("--hash=sha256:")
