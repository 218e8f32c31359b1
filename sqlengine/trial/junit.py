"""Outcomes of cases in the form that CI servers read (JUnit's XML)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree import ElementTree as ET

from parser.errors import SqlError
from sqlengine.trial.testing import Outcome

_NO_XML: Final = re.compile(r"[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(
    outcomes: Mapping[str, Sequence[Outcome]],
    broken: Mapping[str, SqlError],
    described: Mapping[str, Sequence[str]],
) -> str:
    """Returns the report. `described`: for each rule the words for each of its cases, which are
    empty for one that has passed."""
    root = ET.Element("testsuites")
    for rule, found in outcomes.items():
        failed = [o for o in found if not o.passed]
        suite = _suite(root, rule, len(found), len(failed), sum(o.seconds for o in found))
        for outcome, words in zip(found, described[rule], strict=True):
            case = ET.SubElement(
                suite,
                "testcase",
                name=_shown(outcome.case.name),
                classname=_shown(rule),
                time=f"{outcome.seconds:.3f}",
            )
            if not outcome.passed:
                _failure(case, words)
    for rule, error in broken.items():
        suite = _suite(root, rule, 1, 1, 0)
        case = ET.SubElement(suite, "testcase", name="plan", classname=_shown(rule))
        _failure(case, str(error))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: ET.Element, name: str, tests: int, failures: int, seconds: float) -> ET.Element:
    return ET.SubElement(
        root,
        "testsuite",
        name=_shown(name),
        tests=str(tests),
        failures=str(failures),
        time=f"{seconds:.3f}",
    )


def _shown(text: str) -> str:
    """The text without what XML has not: other control characters, halves of pairs."""
    return _NO_XML.sub("?", text)


def _failure(case: ET.Element, text: str) -> None:
    shown = _shown(text)
    ET.SubElement(case, "failure", message=shown.split("\n")[0]).text = shown
