"""Subnets of a CIDR: which are occupied, and what that costs."""

from ipaddress import ip_network

import pytest

from sampan.controllers.nodes.cidr_sets import CidrRangeFull, CidrSets
from tests.calls import counted_calls


def test_occupying_a_cidr_with_millions_of_subnets() -> None:
    """The CIDR has 2^24 subnets. None of the operations enumerates them."""
    with counted_calls() as count:
        ranges = CidrSets(ip_network("10.0.0.0/8"), 32)
        whole, half = ip_network("10.0.0.0/8"), ip_network("10.0.0.0/9")
        first = ranges.take()
        ranges.occupy(half)
        assert len(ranges) == 1 << 23
        assert ranges.take() == ip_network("10.128.0.0/32")
        ranges.occupy(whole)
        assert len(ranges) == 0
        with pytest.raises(CidrRangeFull):
            ranges.take()
        ranges.release(whole)
        ranges.release(half)
        ranges.release(first)
        assert ranges.take() == ip_network("10.128.0.1/32")
        assert len(ranges) == (1 << 24) - 2
    assert count.calls < 5000
