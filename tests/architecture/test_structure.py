"""The code keeps its structure: small folders, imports without circles, docstrings with a subject."""

from __future__ import annotations

import pytest

from tests.architecture.structure import (
    circles,
    files_by_folder,
    import_graph,
    modules,
    without_subject,
)

MOST_FILES = 30
MOST_LOOSE = 10

MODULES = modules()


def test_no_folder_has_more_files_than_a_newcomer_overlooks() -> None:
    full = {f: n for f, n in files_by_folder(MODULES).items() if n > MOST_FILES}
    assert not full, f"put what belongs together into a folder of its own: {full}"


def test_few_modules_of_sqlengine_lie_in_no_room() -> None:
    loose = files_by_folder(MODULES)["sqlengine"] - 1  # __init__.py
    assert loose <= MOST_LOOSE


def test_modules_do_not_import_each_other_in_circles() -> None:
    assert circles(import_graph(MODULES)) == []


def test_docstrings_have_a_subject() -> None:
    found = without_subject(MODULES)
    assert not found, "say what it is or does:\n" + "\n".join(found)


@pytest.mark.parametrize("text", ["Of one graph.", "Whether a row is late.", "The same in JSON."])
def test_such_docstrings_are_found(text: str) -> None:
    from tests.architecture.structure import NO_SUBJECT

    assert NO_SUBJECT.match(text)
