"""The bitmap in which allocated node ports are stored."""

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
def test_allocated_ports_survive_encoding_and_decoding(ports: set[int]) -> None:
    bitmap = PortBitmap(PORTS)
    bitmap.add(ports)
    assert allocated_ports(PortBitmap.decode(PORTS, bitmap.encode())) == ports


def test_encoded_bitmap_equals_range_allocation_of_kube_apiserver() -> None:
    bitmap = PortBitmap(PORTS)
    bitmap.add((30000, 30001, 30009))
    record = json.loads(bitmap.encode())
    assert (record["kind"], record["range"]) == ("RangeAllocation", "30000-32767")
    assert base64.b64decode(record["data"]) == b"\x02\x03"


def test_range_allocation_in_protobuf_is_decoded() -> None:
    record = {"kind": "RangeAllocation", "apiVersion": "v1", "range": "30000-32767", "data": "AgM="}
    assert allocated_ports(PortBitmap.decode(PORTS, protobuf.encode(record))) == {30000, 30001, 30009}


def test_ports_in_both_ranges_are_kept_if_the_range_changes() -> None:
    old = PortBitmap(range(30000, 30011))
    old.add((30000, 30005, 30010))
    moved = PortBitmap.decode(range(30005, 30100), old.encode())
    assert allocated_ports(moved, range(30000, 30100)) == {30005, 30010}


def test_decoded_bitmap_is_not_marked_as_changed() -> None:
    bitmap = PortBitmap(PORTS)
    bitmap.add((30000,))
    assert not PortBitmap.decode(PORTS, bitmap.encode()).is_changed


def test_port_allocation_errors_and_release() -> None:
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
