"""Sigma rules as SQL: read (`parsing`), put together (`ruleset`), written as statements
(`conversion`, `correlations`) over the tables that a mapping names (`mappings`).

Only `parsing` needs the extra `sigma`; everything else works with the values of `rules`."""
