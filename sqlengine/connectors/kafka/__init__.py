"""The connectors 'kafka' and 'upsert-kafka': tables over topics of Apache Kafka."""

from __future__ import annotations
