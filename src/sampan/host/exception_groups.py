"""The exceptions inside an exception group."""

from __future__ import annotations

from collections.abc import Iterator


def leaf_exceptions(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in nested groups; for an exception that is not a group, yield the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for nested in error.exceptions:
            yield from leaf_exceptions(nested)
    else:
        yield error
