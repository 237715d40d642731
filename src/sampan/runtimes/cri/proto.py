"""The messages of CRI, generated from `cri.proto` on first use."""

from functools import cache
from pathlib import Path

from sampan.machinery.proto import Method, Schema


@cache
def load() -> Schema:
    return Schema.read(Path(__file__).with_name("cri.proto"))


__all__ = ["Method", "Schema", "load"]
