"""What others write into the log of a server."""

from __future__ import annotations

import logging
import sys

from sqlengine.system.hidden import hand_out
from sqlengine.system.process import VisibleFormatter


def test_a_name_or_a_record_makes_no_line_of_its_own() -> None:
    """Neither in a message nor in what was raised; a secret is hidden with its controls."""
    hand_out("a\x1bsecret")
    evil = "x\n2026-01-01 INFO sqlengine all is well\r\x1b[2J\u2028\u200e a\x1bsecret"
    try:
        raise ValueError(evil)
    except ValueError:
        record = logging.LogRecord("n", 30, "", 1, "job %s fails", (evil,), sys.exc_info())
    first, *others = VisibleFormatter("%(levelname)s %(message)s").format(record).splitlines()
    assert first == "WARNING job x"
    assert others[0].endswith(r"is well\x0d\x1b[2J\u2028\u200e ****** fails")
    assert others[-1].endswith(r"is well\x0d\x1b[2J\u2028\u200e ******")
    assert all(line.startswith("  ") for line in others)
