"""The settings of Spark with which a session starts. Does not import Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from parser.errors import ServiceError

_PREFIX: Final = "spark."
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
PYTHON: Final = "spark.pyspark.python"
_ADDRESSES: Final = ("spark.driver.host", "spark.driver.bindAddress")
# The settings that nobody may change, each with the reason.
_FIXED: Final = {
    "spark.master": "--master names it",
    "spark.remote": "tasks need a master, and Spark Connect hides it: use --master",
    "spark.api.mode": "tasks need a master, and Spark Connect hides it",
    "spark.submit.deployMode": "the driver is this process",
    "spark.sql.adaptive.enabled": "a task would get the state of several partitions",
}


def check_settings(given: Mapping[str, str]) -> None:
    """Raises ServiceError for what is no setting of Spark, and for one that must stay as it is."""
    for name in sorted(given):
        if not name.startswith(_PREFIX):
            raise ServiceError(
                f"Spark has no setting '{name}'",
                detail="it ignores names that do not begin with 'spark.'",
                hint=f"write --spark-conf {_PREFIX}{name}=…, if that is a setting",
            )
        if name in _FIXED:
            raise ServiceError(
                f"the setting '{name}' of Spark cannot be changed",
                detail=_FIXED[name],
                hint=f"leave out --spark-conf {name}",
            )


def session_settings(
    given: Mapping[str, str], cores: int, memory: str, address: str | None
) -> dict[str, str]:
    """Returns what a session starts with: the engine's settings, before which those `given` come.

    `address`: that to which executors connect; None, and where the given settings say it, for what
    Spark takes. `memory`: of the driver's JVM."""
    own = {
        "spark.driver.memory": memory,
        # A regular expression of Spark's own recurses deeply over long messages.
        _JAVA_OPTIONS: " ".join(["-Xss4m", given.get(_JAVA_OPTIONS, "")]).strip(),
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.ui.enabled": "false",
        "spark.ui.killEnabled": "false",  # whoever sees it could end jobs
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(cores),
    }
    if address is not None and not any(name in given for name in _ADDRESSES):
        own |= dict.fromkeys(_ADDRESSES, address)
    return {**own, **{n: v for n, v in given.items() if n != _JAVA_OPTIONS}}
