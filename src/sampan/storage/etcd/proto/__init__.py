"""The protobuf messages of etcd (its package `etcdserverpb`), created from `etcd.proto` on first use."""

from functools import cache
from pathlib import Path

from sampan.machinery.proto import ProtoSchema, RpcMethod


@cache
def load() -> ProtoSchema:
    return ProtoSchema.read(Path(__file__).with_name("etcd.proto"))


__all__ = ["ProtoSchema", "RpcMethod", "load"]
