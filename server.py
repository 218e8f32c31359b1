"""The entry: reads the configuration from the command line and calls `sqlengine.service`, as `sql
serve` does."""

from __future__ import annotations

import sys

from sqlengine.cli import main

if __name__ == "__main__":
    main(["serve", *sys.argv[1:]])
