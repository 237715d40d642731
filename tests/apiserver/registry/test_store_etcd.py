"""The conformance suite on a real etcd, whose watch events have the delay of another process; with one server, and with
two servers that share it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

pytest.register_assert_rewrite("sampan.testing.registry_conformance")

from sampan.apiserver.pipeline import Pipeline  # noqa: E402
from sampan.storage.etcd import EtcdBackend  # noqa: E402
from sampan.testing.registry_conformance import CHECKS, CONCURRENCY, Check, run  # noqa: E402
from tests.apiserver.registry.subjects import RoundRobin, config_maps, gadgets, open_pipelines  # noqa: E402
from tests.storage.etcd_server import NO_ETCD, Member, find, running_member  # noqa: E402

pytestmark = pytest.mark.skipif(find("etcd") is None, reason=NO_ETCD)

OpenBackend = Callable[[], EtcdBackend]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    with running_member(tmp_path_factory.mktemp("etcd")) as member:
        yield member


_numbers = itertools.count()


@pytest.fixture
def open_backend(etcd: Member) -> OpenBackend:
    """Return a function that opens a connection to a prefix which only this test uses."""
    prefix = f"/test{next(_numbers)}"
    return lambda: EtcdBackend(endpoints=[etcd.client_url], prefix=prefix)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conformance(check: Check, open_backend: OpenBackend) -> None:
    run(check, gadgets(open_backend))


@pytest.mark.parametrize("check", CONCURRENCY, ids=lambda check: check.__name__)
def test_two_servers_on_one_etcd(check: Check, open_backend: OpenBackend) -> None:
    @asynccontextmanager
    async def two_servers() -> AsyncIterator[Pipeline]:
        async with AsyncExitStack() as stack:
            servers = [(await stack.enter_async_context(open_pipelines(1, open_backend)))[0] for _ in range(2)]
            yield RoundRobin(servers)  # type: ignore[misc]

    run(check, replace(config_maps(), open=two_servers))
