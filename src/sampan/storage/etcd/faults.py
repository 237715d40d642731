"""Classification of failed gRPC calls to etcd by status code and message. Pure.

The errors of etcd are recognized by their messages, which are part of its API (clients in other languages do the same);
the code alone does not distinguish "compacted" from "future revision", nor "never sent" from "response lost".
"""

from enum import Enum, auto

from grpc import StatusCode  # type: ignore[import-untyped]


class Kind(Enum):
    NOT_DONE = auto()
    """The request certainly had no effect; it can be retried at another member, or later."""
    UNKNOWN = auto()
    """The response was lost: the request may have taken effect, or may still do so."""
    COMPACTED = auto()
    FUTURE = auto()
    LEASE_GONE = auto()
    FULL = auto()
    """The quota of etcd is exceeded and it rejects writes, although this write may have been the last to succeed."""
    DENIED = auto()
    """Authentication or authorization failed."""
    REFUSED = auto()
    """etcd will never accept the request (too large, invalid)."""


class Fault(Exception):
    """A failed attempt; `text` is the message of etcd or gRPC."""

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
    # Raised before a request is processed (the `hasleader` metadata, the limit on concurrent requests).
    ("etcdserver: no leader", Kind.NOT_DONE),
    ("etcdserver: too many requests", Kind.NOT_DONE),
    # The channel had no connection.
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
