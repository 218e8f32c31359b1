"""Tests of the RocketMQ connector: a package, so that its cluster ends with the last of them."""
