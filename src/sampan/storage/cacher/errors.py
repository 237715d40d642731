"""What a read of the cache can fail with, as facts with the real server's words.

Which HTTP status each becomes is the API server's business: `Expired` is 410, `TooLargeVersion` 504 with a cause,
`InvalidContinue`, `UnsupportedField` and a list's `InvalidVersion` 400, a get's or watch's `InvalidVersion` 500.
"""

_TOO_OLD_TO_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class CacheError(Exception):
    """Base of everything that the cacher raises by itself; `str()` of it is the message for the client."""


class Expired(CacheError):
    """The version asked for is older than what is kept. `continue_token`, if any, goes on at the present version."""

    def __init__(self, message: str, *, continue_token: str = "") -> None:
        super().__init__(message)
        self.continue_token = continue_token

    @classmethod
    def of_watch(cls, revision: int, oldest: int) -> "Expired":
        return cls(f"too old resource version: {revision} ({oldest})")

    @classmethod
    def of_list(cls) -> "Expired":
        return cls("The resourceVersion for the provided list is too old.")

    @classmethod
    def of_page(cls, token: str) -> "Expired":
        return cls(_TOO_OLD_TO_CONTINUE, continue_token=token)


class TooLargeVersion(CacheError):
    """The version asked for was not reached within the time a reader waits."""

    cause = "Too large resource version"

    def __init__(self, requested: int, current: int, *, retry_after_s: int = 1) -> None:
        super().__init__(f"Too large resource version: {requested}, current: {current}")
        self.requested, self.current, self.retry_after_s = requested, current, retry_after_s


class InvalidVersion(CacheError):
    """A resourceVersion that is not an unsigned number."""


class InvalidContinue(CacheError):
    """A continue token that cannot be used."""


class UnsupportedField(CacheError):
    """A field selector names a field that this resource does not offer."""

    def __init__(self, field: str) -> None:
        super().__init__(f"field label not supported: {field}")
        self.field = field


class CorruptValue(CacheError):
    """What is stored under a key is not an object that can be read."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: cannot read the stored value: {reason}")
        self.key, self.reason = key, reason


class Undecipherable(CorruptValue):
    """It is encrypted, and no key that was given opens it. A list does not pass over it: the object is there."""


class NotReady(CacheError):
    """The cache has not been filled yet."""


class TooSlow(CacheError):
    """This watcher did not take its events and was cut off."""


class WatchClosed(CacheError):
    """The cacher has stopped."""
