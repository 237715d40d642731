"""The exceptions of `sampan.testing`. The module imports nothing, because the pytest plugin loads it in every run."""

from __future__ import annotations


class UnsupportedByCluster(RuntimeError):
    """The cluster does not support an operation, for example because it does not run in this process. pytest skips the
    test with the message as the reason."""


class WaitTimeout(AssertionError):
    """An object did not meet a condition in time. The message contains its conditions, its events, and why its pods do
    not run."""
