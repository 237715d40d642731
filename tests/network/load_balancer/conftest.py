"""Fixtures of tests of load balancers."""

from tests.network.pods.conftest import lab

__all__ = ["lab"]
