"""What a failed gRPC call to etcd means: a pure reading of its status code and text.

etcd's own errors are recognised by their texts, which are part of its API (clients in other languages do the same);
the code alone does not tell "compacted" from "ahead", nor "never sent" from "answer lost".
"""

from enum import Enum, auto

from grpc import StatusCode  # type: ignore[import-untyped]


class Kind(Enum):
    NOT_DONE = auto()
    """Certainly without effect; another member, or the same one a little later, may do it."""
    UNKNOWN = auto()
    """The answer was lost: it may have happened, or happen yet."""
    COMPACTED = auto()
    FUTURE = auto()
    LEASE_GONE = auto()
    FULL = auto()
    """etcd's quota is used up: it does not write any more, though this may have been the last it did."""
    DENIED = auto()
    """etcd does not know or does not allow this client."""
    REFUSED = auto()
    """etcd will never do this (too large, not valid)."""


class Fault(Exception):
    """One attempt failed. `text` is what etcd or gRPC said, for people."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text

    @property
    def is_passing(self) -> bool:
        return self.kind in (Kind.NOT_DONE, Kind.UNKNOWN)


_TEXTS = (
    ("required revision has been compacted", Kind.COMPACTED),
    ("required revision is a future revision", Kind.FUTURE),
    ("requested lease not found", Kind.LEASE_GONE),
    ("database space exceeded", Kind.FULL),
    ("request is too large", Kind.REFUSED),
    ("user name is empty", Kind.DENIED),
    ("invalid auth token", Kind.DENIED),
    # Said before a request is looked at (the `hasleader` mark, the limit on requests under way).
    ("etcdserver: no leader", Kind.NOT_DONE),
    ("etcdserver: too many requests", Kind.NOT_DONE),
    # The channel had no connection to send on.
    ("failed to connect to all addresses", Kind.NOT_DONE),
    ("DNS resolution failed", Kind.NOT_DONE),
)

_CODES = {
    StatusCode.UNAUTHENTICATED: Kind.DENIED,
    StatusCode.PERMISSION_DENIED: Kind.DENIED,
    StatusCode.INVALID_ARGUMENT: Kind.REFUSED,
    StatusCode.FAILED_PRECONDITION: Kind.REFUSED,
    StatusCode.OUT_OF_RANGE: Kind.REFUSED,
    StatusCode.NOT_FOUND: Kind.REFUSED,
    StatusCode.UNIMPLEMENTED: Kind.REFUSED,
    StatusCode.RESOURCE_EXHAUSTED: Kind.REFUSED,
}


def classify(code: StatusCode, details: str) -> Kind:
    for text, kind in _TEXTS:
        if text in details:
            return kind
    return _CODES.get(code, Kind.UNKNOWN)
