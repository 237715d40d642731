"""Subnets of a CIDR: which are occupied, and what that costs."""

from ipaddress import ip_network

import pytest

from sampan.controllers.nodes.cidr_sets import CidrRangeFull, CidrSets


def test_occupying_a_cidr_with_millions_of_subnets() -> None:
    """The CIDR has 2^22 subnets, too many to enumerate."""
    ranges = CidrSets(ip_network("10.0.0.0/8"), 30)
    whole, half = ip_network("10.0.0.0/8"), ip_network("10.0.0.0/9")
    first = ranges.take()
    ranges.occupy(half)
    assert len(ranges) == 1 << 21
    assert ranges.take() == ip_network("10.128.0.0/30")
    ranges.occupy(whole)
    assert len(ranges) == 0
    with pytest.raises(CidrRangeFull):
        ranges.take()
    ranges.release(whole)
    ranges.release(half)
    ranges.release(first)
    assert ranges.take() == ip_network("10.128.0.4/30")
    assert len(ranges) == (1 << 22) - 2
