"""The plugin of SQLAlchemy's suite, with our dialect known."""

from __future__ import annotations

from sqlalchemy.dialects import registry

for name in ("sqlengine", "sqlengine.dbapi"):
    registry.register(name, "sqlengine.sqlalchemy.dialect", "SqlengineDialect")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403
