"""Tests of the broker on RocketMQ: a package, so that its cluster ends with the last of them."""
