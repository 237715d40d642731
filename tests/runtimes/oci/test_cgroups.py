"""Counters of cgroups, v1 and v2."""

from sampan.runtimes.contract import DiskCounters
from sampan.runtimes.oci.cgroups import parse_blkio, parse_io_stat

_DEVICE = "0:0"
"""A number that no block device has, so that it is not replaced by a path."""


def test_disks_of_cgroup_v2() -> None:
    text = f"{_DEVICE} rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n0:1 \n"
    assert parse_io_stat(text) == [DiskCounters(device=_DEVICE, reads=1, writes=2, read_bytes=4096, written_bytes=8192)]
    assert parse_io_stat("") == []


def test_disks_of_cgroup_v1() -> None:
    counts = f"{_DEVICE} Read 1\n{_DEVICE} Write 2\n{_DEVICE} Total 3\nTotal 3\n"
    sizes = f"{_DEVICE} Read 4096\n{_DEVICE} Write 8192\n{_DEVICE} Total 12288\nTotal 12288\n"
    assert parse_blkio(counts, sizes) == [
        DiskCounters(device=_DEVICE, reads=1, writes=2, read_bytes=4096, written_bytes=8192)
    ]
    assert parse_blkio("Total 0\n", "") == []
