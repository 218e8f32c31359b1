"""An engine of its own process that reads and publishes MQTT until it is killed.

python -m tests.connectors.mqtt.life DATA < the text of a job"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine


def main() -> None:
    engine = Engine(Config(data=Path(sys.argv[1]), checkpoint_ms=100))
    engine.start()
    if not engine.jobs():
        engine.submit("j", sys.stdin.read())
    print("ready", flush=True)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()
