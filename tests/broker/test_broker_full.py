"""Without disk space nothing is written or lost, and the same append works once there is space."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PATIENCE_S, ROOT

# Fills the folder, makes space with `relieve`, goes on, and looks at all that was acknowledged.
FILL = """
import os, resource, sys
from pathlib import Path
from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import BrokerFull

folder, way = Path(sys.argv[1]), sys.argv[2]
ballast = folder / "ballast"
if way == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
else:
    ballast.write_bytes(bytes(600_000))

def relieve():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ballast.unlink(missing_ok=True)

def refused(append):
    try:
        append()
    except BrokerFull as error:
        assert error.hint and "nothing was written" in error.detail
        return True
    return False

broker = EmbeddedBroker(folder / "broker", segment_bytes=1 << 30 if way == "limit" else 50_000)
broker.create_topic("t")
values = [os.urandom(700) for _ in range(10)]
epoch = 0
while not refused(lambda: broker.append("t", 0, values, timestamp_ms=0, writer="w", epoch=epoch)):
    epoch += 1
full_at = epoch
assert full_at > 5, full_at
for _ in range(3):
    assert refused(lambda: broker.append("t", 0, values, timestamp_ms=0, writer="w", epoch=epoch))
assert broker.end_offset("t", 0) == 10 * epoch
assert broker.topic("t").bytes == sum(path.stat().st_size for path in folder.glob("broker/topics/t.topic/0/*"))
small = 0
while way == "limit" and not refused(lambda: broker.append("t", 0, [b"s"], timestamp_ms=0)):
    small += 1
relieve()
assert not broker.append("t", 0, values, timestamp_ms=0, writer="w", epoch=epoch).duplicate
expected = values * full_at + [b"s"] * small + values
assert broker.read("t", 0, 0, until=len(expected)).values.to_pylist() == expected
broker.close()
broker = EmbeddedBroker(folder / "broker")
assert broker.read("t", 0, 0, until=len(expected)).values.to_pylist() == expected
assert broker.end_offset("t", 0) == len(expected)
broker.close()
"""


def test_a_limit_of_file_size(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path), "limit"],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_full_disk(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    mount = f"mount -t tmpfs -o size=1m none {tmp_path}"
    private = [unshare or "", "--mount", "sh", "-c"]
    if (
        unshare is None
        or subprocess.run([*private, mount], capture_output=True, check=False).returncode
    ):
        pytest.skip("a disk of its own needs unshare and mount")
    done = subprocess.run(
        [*private, f'{mount} && exec "$@"', "sh", sys.executable, "-c", FILL, str(tmp_path), "disk"],
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
