"""Every function of the SQL dialect. Importing the package registers them all: each module of it is a topic."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
