from tests.network.pods.conftest import lab

__all__ = ["lab"]
