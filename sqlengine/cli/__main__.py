from __future__ import annotations

from sqlengine.cli.sql import main

main()
