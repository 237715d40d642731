"""Parts of a range: what is taken, and what that costs."""

from ipaddress import ip_network

import pytest

from sampan.controllers.nodes.cidr_sets import CidrRangeFull, CidrSets


def test_a_node_that_names_the_whole_range_costs_as_little_as_one_that_names_a_part() -> None:
    """2^22 parts: nobody may count them one by one."""
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
