"""What becomes of rules that should not be: one is refused, a noisy one is rolled back by its canary,
and an alert says what is behind it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

from demo.rules import BY_NAME
from demo.server import Server
from sqlengine.client import Client, Json, Refused

RULE = "locked-files"  # whose second version is noisy, and whose third is broken
WITHIN_S = 30.0  # a canary has come to something by then
Say = Callable[[str], None]


def refuse_broken(client: Client, say: Say) -> None:
    """Submits a version of a rule with a column that does not exist; the one before it runs on."""
    broken = BY_NAME[RULE].sql.replace("target_filename", "target_filname")
    try:
        client.put(f"/api/v1/jobs/{RULE}", broken.encode())
    except Refused as error:
        say(f"a broken version of {RULE} is refused: {error.message}; {error.hint}")
        return
    raise SystemExit(f"a broken version of {RULE} was not refused")


def submit_noisy(client: Client) -> None:
    """Submits a version of a rule that finds every file, beside the live one for a minute."""
    head = "-- @rule\n-- canary: 1m, max-rate 2x\n"
    noisy = BY_NAME[RULE].sql.replace("LIKE '%.locked'", "LIKE '%.%'")
    client.put(f"/api/v1/jobs/{RULE}", (head + noisy).encode())


def await_rollback(client: Client, say: Say) -> None:
    """Waits until the canary has been rolled back, and says why."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        versions = client.get(f"/api/v1/jobs/{RULE}/history")["versions"]
        assert isinstance(versions, list)
        fates = [v["fate"] for v in versions if v["fate"]]
        if fates:
            say(f"a noisy version of {RULE}, which never wrote an alert: {fates[-1]}")
            return
        time.sleep(0.1)
    raise SystemExit(f"the canary of {RULE} has come to nothing in {WITHIN_S:.0f} s")


def explain(server: Server, alert: Json, offset: int, say: Say) -> None:
    """Says which events are behind an alert, as `sql why --alert` does."""
    command = [sys.executable, "-m", "sqlengine.cli", "why", "--alert", f"alerts@{offset}"]
    environment = os.environ | {"SQLENGINE_SERVER": server.client.server}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"sql why does not know alert {offset}: {done.stderr}")
    say(f"sql why --alert alerts@{offset}, an alert of {alert['rule']}:")
    for line in done.stdout.splitlines():
        say(f"    {line}")
