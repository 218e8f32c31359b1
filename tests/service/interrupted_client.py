"""A program that reads a result without end until it is interrupted: `URL TOKEN`."""

from __future__ import annotations

import sys

from sqlengine import connect

if __name__ == "__main__":
    connection = connect(sys.argv[1], token=sys.argv[2])
    try:
        for row in connection.sql("SELECT n FROM events", follow=True):
            print(row.n, flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.stdin.read()  # it lives on, and holds its connection
