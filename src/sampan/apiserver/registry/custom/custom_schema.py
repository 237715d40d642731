"""The schema of one version of a custom resource, compiled when it is first used."""

from __future__ import annotations

import hashlib
import threading
from functools import cached_property

import msgspec

from sampan.api.schema import Schema, from_openapi


class CustomSchema:
    """The openAPIV3Schema of a version as JSON, and what is derived from it.

    Most custom resources of a cluster are only listed, which needs no schema: the JSON takes a tenth of the memory of
    the tree. Several threads may use it.
    """

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._lock = threading.Lock()
        self._tree: Schema | None = None

    @property
    def tree(self) -> Schema:
        if self._tree is None:
            self.compile()
            assert self._tree is not None
        return self._tree

    @property
    def is_compiled(self) -> bool:
        return self._tree is not None

    def compile(self) -> None:
        """Create the tree. This takes up to a tenth of a second for the largest schemas, so do it in a thread."""
        with self._lock:
            if self._tree is None:
                self._tree = from_openapi(msgspec.json.decode(self.source, type=dict))

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.source).hexdigest()

    def __repr__(self) -> str:
        return f"CustomSchema({self.digest})"
