"""etcd's wire messages, made from `etcd.proto` when they are first needed."""

from functools import cache
from pathlib import Path

from sampan.machinery.proto import Method, Schema


@cache
def load() -> Schema:
    return Schema.read(Path(__file__).with_name("etcd.proto"))


__all__ = ["Method", "Schema", "load"]
