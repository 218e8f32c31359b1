"""Libraries are locked with hashes, named in a bill of materials, and under licences that we may
use."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply_chain.distributions import Library, declared, libraries, locked
from tests.supply_chain.licences import EXCEPTIONS, faults
from tests.supply_chain.sbom import bill_of_materials
from tests.support import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


class Stated(metadata.Distribution):
    """A distribution that says of itself what it is told."""

    def __init__(self, text: str) -> None:
        self._text = f"Name: stated\nVersion: 1\n{text}\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        return Path(str(path))


def test_each_library_is_locked_with_hashes() -> None:
    found = list(locked())
    assert len(found) > 50
    assert not [name for name, _, hashes in found if not hashes]
    versions: dict[str, set[str]] = {}
    for name, version, _ in found:
        versions.setdefault(name, set()).add(version)
    assert not {name: v for name, v in versions.items() if len(v) > 1}


def test_all_that_is_declared_is_locked() -> None:
    always, extras = declared()
    group = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "dependency-groups"
    ]
    wanted = [*always, *extras, *map(Requirement, group["dev"])]
    versions = {name: version for name, version, _ in locked()}
    missing = [str(r) for r in wanted if canonicalize_name(r.name) not in versions]
    assert not missing, "run make lock"
    apart = [str(r) for r in wanted if versions[canonicalize_name(r.name)] not in r.specifier]
    assert not apart, "run make lock"


def test_no_file_names_a_registry() -> None:
    for path in (
        *(ROOT / "requirements").glob("*.txt"),
        ROOT / "pyproject.toml",
        ROOT / "Makefile",
    ):
        text = path.read_text(encoding="utf-8")
        assert "index-url" not in text, path
        assert "://" not in text, path


def test_setup_takes_only_what_has_the_hashes() -> None:
    installs = [line.strip() for line in MAKEFILE.splitlines() if "$(INSTALL) " in line]
    assert len(installs) == 3
    assert all("--require-hashes -r requirements/" in i or "--no-deps" in i for i in installs)


def test_licences_are_allowed() -> None:
    found = libraries()
    assert not faults(found.values())
    assert not EXCEPTIONS.keys() - found.keys()


@pytest.mark.parametrize(
    "text",
    [
        "License-Expression: GPL-3.0-only",
        "License-Expression: MIT AND AGPL-3.0-or-later",
        "License-Expression: (MIT OR GPL-2.0-only) AND MIT",
        "Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)",
        "Classifier: License :: OSI Approved :: MIT License\nClassifier: License :: OSI Approved :: GNU Affero General Public License v3",
        "License: GPL",
        "License: ",
        "",
    ],
)
def test_a_licence_that_is_not_allowed_is_named(text: str) -> None:
    (fault,) = faults([Library(Stated(text))])
    assert fault.startswith("stated 1: the licence ")


@pytest.mark.parametrize(
    "text",
    [
        "License-Expression: GPL-2.0-only OR MIT AND BSD-3-Clause",
        "License: Apache-2.0",
        "Classifier: License :: OSI Approved\nClassifier: License :: OSI Approved :: MIT License",
    ],
)
def test_a_licence_that_leaves_a_choice_is_allowed(text: str) -> None:
    assert not faults([Library(Stated(text))])


def test_the_bill_of_materials_has_all_libraries() -> None:
    found = libraries()
    bill = bill_of_materials(found)
    assert bill == bill_of_materials(found)
    assert {"pyarrow", "numpy", "flask", "werkzeug", "rocksdict"} <= found.keys()
    refs = {c["bom-ref"] for c in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert refs == {d["ref"] for d in bill["dependencies"]}
    (flask,) = [d for d in bill["dependencies"] if d["ref"].startswith("pkg:pypi/flask@")]
    assert any(ref.startswith("pkg:pypi/werkzeug@") for ref in flask["dependsOn"])
    assert all(ref in refs for d in bill["dependencies"] for ref in d["dependsOn"])
