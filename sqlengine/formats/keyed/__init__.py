"""Records that have a key besides their value, as those of Kafka and RocketMQ."""

from __future__ import annotations
