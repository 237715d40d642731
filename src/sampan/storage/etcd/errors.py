"""Classification of failed gRPC calls to etcd by status code and message. Pure.

The errors of etcd are recognized by their messages, which are part of its API (clients in other languages do the same);
the code alone does not distinguish "compacted" from "future revision", nor "never sent" from "response lost".
"""

from enum import Enum, auto

from grpc import StatusCode  # type: ignore[import-untyped]


class FailureKind(Enum):
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


class EtcdError(Exception):
    """A failed attempt; `text` is the message of etcd or gRPC."""

    def __init__(self, kind: FailureKind, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text

    @property
    def is_passing(self) -> bool:
        return self.kind in (FailureKind.NOT_DONE, FailureKind.UNKNOWN)


_TEXTS = (
    ("required revision has been compacted", FailureKind.COMPACTED),
    ("required revision is a future revision", FailureKind.FUTURE),
    ("requested lease not found", FailureKind.LEASE_GONE),
    ("database space exceeded", FailureKind.FULL),
    ("request is too large", FailureKind.REFUSED),
    ("user name is empty", FailureKind.DENIED),
    ("invalid auth token", FailureKind.DENIED),
    # Raised before a request is processed (the `hasleader` metadata, the limit on concurrent requests).
    ("etcdserver: no leader", FailureKind.NOT_DONE),
    ("etcdserver: too many requests", FailureKind.NOT_DONE),
    # The channel had no connection.
    ("failed to connect to all addresses", FailureKind.NOT_DONE),
    ("DNS resolution failed", FailureKind.NOT_DONE),
)

_CODES = {
    StatusCode.UNAUTHENTICATED: FailureKind.DENIED,
    StatusCode.PERMISSION_DENIED: FailureKind.DENIED,
    StatusCode.INVALID_ARGUMENT: FailureKind.REFUSED,
    StatusCode.FAILED_PRECONDITION: FailureKind.REFUSED,
    StatusCode.OUT_OF_RANGE: FailureKind.REFUSED,
    StatusCode.NOT_FOUND: FailureKind.REFUSED,
    StatusCode.UNIMPLEMENTED: FailureKind.REFUSED,
    StatusCode.RESOURCE_EXHAUSTED: FailureKind.REFUSED,
}


def classify(code: StatusCode, details: str) -> FailureKind:
    for text, kind in _TEXTS:
        if text in details:
            return kind
    return _CODES.get(code, FailureKind.UNKNOWN)
