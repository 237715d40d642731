"""What tests of load balancers share."""

from tests.network.pods.conftest import lab

__all__ = ["lab"]
