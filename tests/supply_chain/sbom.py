"""Writes a software bill of materials, CycloneDX 1.6 in JSON: `python -m tests.supply_chain.sbom
FILE`.

It has what the metadata of installed libraries say; the same libraries give the same file. A
library that writes it would bring more libraries than it lists."""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.supply_chain.distributions import Library, declared, libraries
from tests.support import ROOT

_SPDX_ID = re.compile(r"[A-Za-z0-9.+-]+( (AND|OR|WITH) [A-Za-z0-9.+-]+)*")


def bill_of_materials(found: dict[str, Library]) -> dict[str, Any]:
    """The document for these libraries, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = {
        "type": "application",
        "bom-ref": _purl(project["name"], project["version"]),
        "name": project["name"],
        "version": project["version"],
        "purl": _purl(project["name"], project["version"]),
        "licenses": [{"expression": project["license"]}],
    }
    always, extras = declared()
    content = {
        "metadata": {"component": own},
        "components": [_component(library) for library in found.values()],
        "dependencies": [
            _edges(own["bom-ref"], [*always, *extras], found),
            *(_edges(_purl(n, lib.version), lib.requires, found) for n, lib in found.items()),
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        **content,
    }


def _component(library: Library) -> dict[str, Any]:
    purl = _purl(library.name, library.version)
    licence = library.licence
    # 'BSD' is a name, and no identifier of SPDX.
    named = licence == "BSD" or not _SPDX_ID.fullmatch(licence)
    return {
        "type": "library",
        "bom-ref": purl,
        "name": library.name,
        "version": library.version,
        "description": library.distribution.metadata["Summary"],
        "licenses": [{"license": {"name": licence}} if named else {"expression": licence}],
        "purl": purl,
    }


def _edges(ref: str, needs: Iterable[Requirement], found: dict[str, Library]) -> dict[str, Any]:
    names = sorted({canonicalize_name(r.name) for r in needs} & found.keys())
    return {"ref": ref, "dependsOn": [_purl(name, found[name].version) for name in names]}


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


if __name__ == "__main__":
    TARGET = Path(sys.argv[1])
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    FOUND = libraries()
    TARGET.write_text(json.dumps(bill_of_materials(FOUND), indent=2) + "\n", encoding="utf-8")
    print(f"{TARGET}: {len(FOUND)} libraries")
