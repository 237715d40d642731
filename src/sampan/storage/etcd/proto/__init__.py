"""The protobuf messages of etcd (its package `etcdserverpb`), created from `etcd.proto` on first use."""

from functools import cache
from pathlib import Path

from sampan.machinery.proto import Method, Schema


@cache
def load() -> Schema:
    return Schema.read(Path(__file__).with_name("etcd.proto"))


__all__ = ["Method", "Schema", "load"]
