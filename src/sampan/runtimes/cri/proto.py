"""The messages of the container runtime interface, made from `cri.proto` when they are first needed."""

from functools import cache
from pathlib import Path

from sampan.machinery.proto import Method, Schema


@cache
def load() -> Schema:
    return Schema.read(Path(__file__).with_name("cri.proto"))


__all__ = ["Method", "Schema", "load"]
