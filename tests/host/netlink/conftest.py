"""Fixtures of tests of netlink."""

from tests.network.pods.conftest import lab as lab
