"""Fixtures of tests of the proxy."""

from tests.network.pods.conftest import lab

__all__ = ["lab"]
