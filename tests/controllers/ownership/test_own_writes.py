"""A cache that does not show one's own write is behind."""

from sampan.controllers.ownership.own_writes import OwnWrites
from tests.controllers.ownership.objects import pod


def test_older_than_the_write_is_stale() -> None:
    writes = OwnWrites()
    assert not writes.is_stale(pod("a", resourceVersion="9"))
    writes.wrote(pod("a", resourceVersion="10"))
    assert writes.is_stale(pod("a", resourceVersion="9"))
    assert not writes.is_stale(pod("b", resourceVersion="9"))
    assert not writes.is_stale(pod("a", resourceVersion="10"))
    writes.wrote(pod("a", resourceVersion="12"))
    writes.forget("uid-a")
    assert not writes.is_stale(pod("a", resourceVersion="9"))


def test_what_is_gone_is_stale_for_good() -> None:
    writes = OwnWrites()
    writes.gone(pod("a", resourceVersion="10"))
    assert writes.is_stale(pod("a", resourceVersion="11"))
    writes.forget("uid-a")
    assert not writes.is_stale(pod("a", resourceVersion="11"))
