"""Pure parts of the etcd store: classification of errors, fate of writes, keys, event log, routes, URLs."""

import pytest
from grpc import StatusCode  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from sampan.storage.backend import StoreEvent
from sampan.storage.etcd.client import FailureKind, classify, has_ordered_progress
from sampan.storage.etcd.endpoints import parse_url
from sampan.storage.etcd.feed import EventLog, WatchRoutes
from sampan.storage.etcd.wire import KeyCodec, end_of_prefix
from sampan.storage.etcd.writer import WriteFate, WriteOutcome, WriteRequest, determine_result


@pytest.mark.parametrize(
    ("code", "details", "kind"),
    [
        (StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted", FailureKind.COMPACTED),
        (StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision", FailureKind.FUTURE),
        (StatusCode.NOT_FOUND, "etcdserver: requested lease not found", FailureKind.LEASE_GONE),
        (StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded", FailureKind.FULL),
        (StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests", FailureKind.NOT_DONE),
        (StatusCode.RESOURCE_EXHAUSTED, "grpc: received message larger than max (4 vs. 2)", FailureKind.REFUSED),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: request is too large", FailureKind.REFUSED),
        (StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty", FailureKind.DENIED),
        (StatusCode.PERMISSION_DENIED, "etcdserver: permission denied", FailureKind.DENIED),
        (StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token", FailureKind.DENIED),
        (StatusCode.UNAVAILABLE, "etcdserver: no leader", FailureKind.NOT_DONE),
        (StatusCode.UNAVAILABLE, "etcdserver: leader changed", FailureKind.UNKNOWN),
        (StatusCode.UNAVAILABLE, "etcdserver: request timed out", FailureKind.UNKNOWN),
        (StatusCode.UNAVAILABLE, "failed to connect to all addresses; last error: refused", FailureKind.NOT_DONE),
        (StatusCode.UNAVAILABLE, "Socket closed", FailureKind.UNKNOWN),
        (StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", FailureKind.UNKNOWN),
        (StatusCode.UNKNOWN, "", FailureKind.UNKNOWN),
    ],
)
def test_failure_kinds_of_grpc_errors(code: StatusCode, details: str, kind: FailureKind) -> None:
    assert classify(code, details) is kind


def _put(revision: int, value: bytes, created: int = 1) -> StoreEvent:
    return StoreEvent(revision, "k", value, created)


def _deletion(revision: int) -> StoreEvent:
    return StoreEvent(revision, "k", None, 0)


NOT_DONE, UNKNOWN = WriteFate(WriteOutcome.NOT_DONE), WriteFate(WriteOutcome.UNKNOWN)


@pytest.mark.parametrize(
    ("value", "expected", "since", "fate"),
    [
        pytest.param(b"a", 5, [_put(9, b"a")], WriteFate(WriteOutcome.DONE, 9), id="swap: own write came first"),
        pytest.param(
            b"a",
            5,
            [_put(9, b"a"), _put(10, b"b")],
            WriteFate(WriteOutcome.DONE, 9),
            id="swap: own write, overwritten later",
        ),
        pytest.param(
            b"a",
            5,
            [_put(9, b"a"), _deletion(10)],
            WriteFate(WriteOutcome.DONE, 9),
            id="swap: own write, deleted later",
        ),
        pytest.param(b"a", 5, [_put(9, b"b"), _put(10, b"a")], NOT_DONE, id="swap: another write came first"),
        pytest.param(b"a", 5, [_deletion(9), _put(10, b"a", 10)], NOT_DONE, id="swap: deleted before"),
        pytest.param(b"a", 5, [_put(5, b"a"), _put(9, b"b")], NOT_DONE, id="swap: the expected value was the same"),
        pytest.param(b"a", 5, [], NOT_DONE, id="swap: changed before"),
        pytest.param(b"a", 0, [_put(9, b"a", 9)], WriteFate(WriteOutcome.DONE, 9), id="create: own write"),
        pytest.param(
            b"a",
            0,
            [_put(8, b"b", 8), _deletion(9), _put(10, b"a", 10)],
            WriteFate(WriteOutcome.DONE, 10),
            id="create: own write after a deletion",
        ),
        pytest.param(b"a", 0, [_put(9, b"a", 3)], NOT_DONE, id="create: update with the same value"),
        pytest.param(b"a", 0, [_put(9, b"b", 9)], NOT_DONE, id="create: another write"),
        pytest.param(b"a", None, [_put(8, b"b"), _put(9, b"a")], WriteFate(WriteOutcome.DONE, 9), id="put: own write"),
        pytest.param(b"a", None, [_put(9, b"b")], UNKNOWN, id="put: may still arrive"),
        pytest.param(None, 5, [_deletion(9)], UNKNOWN, id="delete: deletion of any client"),
        pytest.param(None, 5, [_put(9, b"b"), _deletion(10)], NOT_DONE, id="delete: changed first"),
        pytest.param(None, 5, [], NOT_DONE, id="delete: changed before"),
        pytest.param(None, None, [_deletion(9)], UNKNOWN, id="delete: unchecked"),
    ],
)
def test_fate_of_a_write_without_response(
    value: bytes | None, expected: int | None, since: list[StoreEvent], fate: WriteFate
) -> None:
    assert determine_result(WriteRequest(key="k", value=value, expected=expected), since) == fate


@given(st.binary(max_size=5), st.binary(max_size=6))
def test_end_of_prefix_bounds_exactly_the_keys_with_the_prefix(prefix: bytes, key: bytes) -> None:
    end = end_of_prefix(prefix)
    is_inside = prefix <= key and (end == b"\0" or key < end)
    assert is_inside == key.startswith(prefix)


@given(st.binary())
def test_keys_round_trip_through_decode_and_encode(key: bytes) -> None:
    keys = KeyCodec("/tenant")
    assert keys.encode(keys.decode(b"/tenant" + key)) == b"/tenant" + key


@given(
    sizes=st.lists(st.integers(1, 3), max_size=30),
    max_events=st.integers(3, 12),
    forget=st.integers(0, 40),
    after=st.integers(0, 40),
)
def test_event_log_holds_all_events_after_its_base(sizes: list[int], max_events: int, forget: int, after: int) -> None:
    log = EventLog(position=5, max_events=max_events, max_bytes=1 << 20)
    appended: list[StoreEvent] = []
    for revision, size in enumerate(sizes, 6):
        events = [StoreEvent(revision, f"k{i}", b"x", 1) for i in range(size)]
        appended += events
        log.append(events, revision)
    log.forget_before(forget)
    assert log.position == 5 + len(sizes)
    if after >= log.base:
        assert list(log.list_events_after(after)) == [event for event in appended if event.revision > after]
    assert forget <= 1 or log.base >= min(forget - 1, log.position)
    assert len(list(log.list_events_after(log.base))) <= max_events


def test_event_log_is_bounded_in_bytes() -> None:
    log = EventLog(position=1, max_events=1000, max_bytes=10_000)
    for revision in range(2, 20):
        log.append([StoreEvent(revision, "k", b"x" * 3000, 1)], revision)
    assert [event.revision for event in log.list_events_after(log.base)] == [17, 18, 19]
    assert log.base == 16


class _Routed:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix


@given(st.lists(st.text("ab/", max_size=4), max_size=8), st.text("ab/", max_size=6))
def test_watch_routes_match_exactly_the_prefixes_of_a_key(prefixes: list[str], key: str) -> None:
    routed = [_Routed(prefix) for prefix in prefixes]
    routes: WatchRoutes[_Routed] = WatchRoutes()
    for watch in routed:
        routes.add(watch)
    for watch in routed[::3]:
        routes.discard(watch)
    left = [watch for i, watch in enumerate(routed) if i % 3]
    assert set(routes) == set(left)
    assert set(routes.find_watches(key)) == {watch for watch in left if key.startswith(watch.prefix)}


@pytest.mark.parametrize(
    ("version", "is_ordered"),
    [
        ("3.3.27", False),
        ("3.4.24", False),
        ("3.4.25", True),
        ("3.5.1", False),
        ("3.5.8", True),
        ("3.6.0-rc.1", True),
        ("4.0.0", True),
        ("unknown", False),
    ],
)
def test_etcd_versions_with_ordered_progress(version: str, is_ordered: bool) -> None:
    assert has_ordered_progress(version) is is_ordered


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:2379", ("127.0.0.1:2379", False)),
        ("https://etcd.example", ("etcd.example:2379", True)),
        ("https://[::1]:12379/", ("[::1]:12379", True)),
        ("127.0.0.1:2379", ("127.0.0.1:2379", False)),
    ],
)
def test_endpoint_urls(url: str, address: tuple[str, bool]) -> None:
    assert parse_url(url) == address


@pytest.mark.parametrize("url", ["ftp://x:1", "https://"])
def test_invalid_endpoint_urls_are_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="not an etcd endpoint"):
        parse_url(url)
