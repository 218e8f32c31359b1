"""Spark's own UI, when it is switched on: for this machine alone, with jobs that are named by graph
and epoch, which it cannot end; and what a watch tells of a job that runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from parser.errors import ServiceError
from sqlengine.executors.spark.java import require_spark
from tests.support import ROOT

# In a process of its own: a process has one session, that of all tests has no UI.
PROGRAM = """
import json, socket, time, urllib.error, urllib.request
from sqlengine.config import Cluster
from sqlengine.executors.spark.session import OwnSpark

def ask(path, method="GET"):
    request = urllib.request.Request(view.ui + path, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()

def slowly(batches):
    time.sleep(4)
    yield from batches

spark = OwnSpark(cluster=Cluster(None, {"spark.ui.enabled": "true", "spark.ui.port": "0"}))
before, told = spark.view(), []
session = spark.session()
view = spark.view()
with spark.group("main-1", "graph main, epoch 7", far=told.append):
    session.range(10).mapInArrow(slowly, "id long").toArrow()
(application,) = json.loads(ask("/api/v1/applications"))
(job,) = json.loads(ask(f"/api/v1/applications/{application['id']}/jobs"))
try:
    ended = ask(f"/jobs/job/kill/?id={job['jobId']}", "POST") and "ended"
except urllib.error.HTTPError as error:
    ended = error.code
others = [a for *_, (a, *_) in socket.getaddrinfo(socket.gethostname(), None) if not a.startswith("127.")]
def listens(address):
    try:
        return not socket.create_connection((address, int(view.ui.rpartition(":")[2])), 5).close()
    except OSError:
        return False
spark.close()
print(json.dumps([before, view.ui, view.starts, job["description"], ended, sorted(told)[0], any(map(listens, others))]))
"""


@pytest.mark.spark
def test_the_ui_shows_jobs_to_this_machine_and_ends_none() -> None:
    try:
        require_spark()
    except ServiceError as error:
        pytest.skip(error.message)
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    before, ui, starts, description, ended, told, reached = json.loads(done.stdout.splitlines()[-1])
    assert before is None
    assert ui.startswith("http://127.0.0.1:")
    assert (starts, description, ended) == (1, "graph main, epoch 7", 403)
    assert told.endswith("tasks done")
    assert not reached
