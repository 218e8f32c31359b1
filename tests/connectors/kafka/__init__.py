"""Tests of the Kafka connectors: a package, so that their broker ends with the last of them."""
