"""The errors of reads from the cache, with the messages of kube-apiserver.

The API server maps them to HTTP status codes: `VersionExpired` is 410, `TooLargeVersion` 504 with a cause,
`InvalidContinue`, `UnsupportedField` and a list's `InvalidVersion` 400, a get's or watch's `InvalidVersion` 500.
"""

_EXPIRED_CONTINUE_MESSAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class CacheError(Exception):
    """The base of all errors that the cacher itself raises; the text of the exception is the message for the client."""


class VersionExpired(CacheError):
    """The requested version is no longer available; `continue_token`, if any, continues at the current version."""

    def __init__(self, message: str, *, continue_token: str = "") -> None:
        super().__init__(message)
        self.continue_token = continue_token

    @classmethod
    def for_watch(cls, revision: int, oldest: int) -> "VersionExpired":
        return cls(f"too old resource version: {revision} ({oldest})")

    @classmethod
    def for_list(cls) -> "VersionExpired":
        return cls("The resourceVersion for the provided list is too old.")

    @classmethod
    def for_page(cls, token: str) -> "VersionExpired":
        return cls(_EXPIRED_CONTINUE_MESSAGE, continue_token=token)


class TooLargeVersion(CacheError):
    """The requested version was not reached within the time that a read waits."""

    cause = "Too large resource version"

    def __init__(self, requested: int, current: int, *, retry_after_s: int = 1) -> None:
        super().__init__(f"Too large resource version: {requested}, current: {current}")
        self.requested, self.current, self.retry_after_s = requested, current, retry_after_s


class InvalidVersion(CacheError):
    """A resourceVersion is not an unsigned integer."""


class InvalidContinue(CacheError):
    """A continue token is invalid."""


class UnsupportedField(CacheError):
    """A field selector uses a field that this resource does not support."""

    def __init__(self, field: str) -> None:
        super().__init__(f"field label not supported: {field}")
        self.field = field


class CorruptValue(CacheError):
    """The stored value of a key cannot be decoded."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: cannot read the stored value: {reason}")
        self.key, self.reason = key, reason


class UndecipherableValue(CorruptValue):
    """The value is encrypted with an unknown key; a list fails instead of omitting it, because the object exists."""


class NotReady(CacheError):
    """The cache has not been filled yet."""


class TooSlow(CacheError):
    """The watcher was terminated because it did not consume its events."""


class WatchClosed(CacheError):
    """The cacher has stopped."""
