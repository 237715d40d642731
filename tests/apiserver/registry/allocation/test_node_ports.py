"""The record of node ports."""

import base64
import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.codec import protobuf
from sampan.apiserver.registry.allocation import AllocationError, AllocatorFull
from sampan.apiserver.registry.allocation.node_ports import PortBitmap

PORTS = range(30000, 32768)


def allocated_ports(bitmap: PortBitmap, ports: range = PORTS) -> set[int]:
    return {port for port in ports if port in bitmap}


@given(st.sets(st.sampled_from(PORTS)))
def test_what_is_taken_is_kept(ports: set[int]) -> None:
    bitmap = PortBitmap(PORTS)
    bitmap.add(ports)
    assert allocated_ports(PortBitmap.decode(PORTS, bitmap.encode())) == ports


def test_the_record_is_that_of_a_real_server() -> None:
    bitmap = PortBitmap(PORTS)
    bitmap.add((30000, 30001, 30009))
    record = json.loads(bitmap.encode())
    assert (record["kind"], record["range"]) == ("RangeAllocation", "30000-32767")
    assert base64.b64decode(record["data"]) == b"\x02\x03"


def test_a_record_in_protobuf_is_read() -> None:
    record = {"kind": "RangeAllocation", "apiVersion": "v1", "range": "30000-32767", "data": "AgM="}
    assert allocated_ports(PortBitmap.decode(PORTS, protobuf.encode(record))) == {30000, 30001, 30009}


def test_a_record_of_another_range_keeps_what_both_have() -> None:
    old = PortBitmap(range(30000, 30011))
    old.add((30000, 30005, 30010))
    moved = PortBitmap.decode(range(30005, 30100), old.encode())
    assert allocated_ports(moved, range(30000, 30100)) == {30005, 30010}


def test_nothing_is_changed_by_reading() -> None:
    bitmap = PortBitmap(PORTS)
    bitmap.add((30000,))
    assert not PortBitmap.decode(PORTS, bitmap.encode()).is_changed


def test_refusals() -> None:
    bitmap = PortBitmap(range(30000, 30002))
    assert bitmap.take(30000) == 30000
    with pytest.raises(AllocationError, match="provided port is already allocated"):
        bitmap.take(30000)
    with pytest.raises(AllocationError, match=r"not in the valid range. The range of valid ports is 30000-30001"):
        bitmap.take(80)
    assert bitmap.take_any(Random(1)) == 30001
    with pytest.raises(AllocatorFull):
        bitmap.take_any(Random(1))
    bitmap.release((30000, 31, 30001))
    assert not allocated_ports(bitmap, range(30000, 30002))
