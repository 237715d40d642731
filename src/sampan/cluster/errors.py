"""Failures of a cluster as a whole, and the exceptions inside a group."""

from __future__ import annotations

from collections.abc import Iterator


class ClusterError(ValueError):
    """A cluster cannot be started or changed as configured. The message names the flag, file or port."""


def leaf_exceptions(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in nested groups; for an exception that is not a group, yield the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for nested in error.exceptions:
            yield from leaf_exceptions(nested)
    else:
        yield error
