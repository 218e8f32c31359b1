"""Fuzzing of a running server: requests, raw bytes, messages of the broker, SQL, and records in
every format, with a job beside that must stay exact.

    python -m tests.hostile.fuzzing --minutes 30        as `make soak` does
    python -m tests.hostile.fuzzing --seed 17           the same attacks again

Each attack draws all it does from its seed, so that a round that fails can be had again."""
