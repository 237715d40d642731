"""The failure of a component beside the API server is reported and mended by a restart; the API server goes on."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sampan.api.types.core_v1 import ComponentStatus, ConfigMap, Namespace, ServiceAccount
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver import loopback
from sampan.apiserver.config.server_config import ServerConfig
from sampan.apiserver.request.call import AUTHENTICATED, Call, Query, UserInfo
from sampan.apiserver.response.responses import RawResponse
from sampan.cluster.assembly import Assembly
from sampan.cluster.cluster_config import APISERVER, CONTROLLERS, SCHEDULER, ClusterConfig, StoreConfig
from sampan.cluster.leadership import LeadershipConfig
from sampan.controllers.manager import ControllerManager
from sampan.host.clock import RealClock
from sampan.machinery.control_loop.controller import ControllerRunner
from sampan.machinery.errors import NotFound
from sampan.scheduler.scheduler import Scheduler
from sampan.testing import Cluster
from tests.eventually import eventually, wait_until

READER, ANYBODY = UserInfo("reader", groups=("system:masters", AUTHENTICATED)), UserInfo("system:anonymous")


@asynccontextmanager
async def running_cluster(**settings: Any) -> AsyncIterator[Assembly]:
    config = ClusterConfig(
        server=ServerConfig(bind_address="127.0.0.1"),
        store=StoreConfig(),
        components=(APISERVER, CONTROLLERS, SCHEDULER),
        **settings,
    )
    async with Assembly(config=config, clock=RealClock()) as assembly:
        yield assembly


async def read(assembly: Assembly, path: str, user: UserInfo = READER) -> RawResponse:
    target, _, query = path.partition("?")
    call = Call(method="GET", path=target, query=Query(query), headers={}, user=user)
    response = await assembly.server.pipeline.serve_as(call)
    assert isinstance(response, RawResponse)
    return response


async def read_components(assembly: Assembly) -> Mapping[str, str]:
    """Return the lines of /readyz about components, by the name of the component."""
    response = await read(assembly, "/readyz?verbose")
    assert response.code == 200
    lines = [line for line in response.body.decode().splitlines() if "component/" in line]
    return {line.partition("component/")[2].partition(" ")[0]: line for line in lines}


class Failing:
    """Replaces a coroutine method of a class by one that fails while `is_active`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cls: type[Any], *, name: str = "") -> None:
        self.is_active, self.failures = True, 0
        run = cls.run

        async def fail_or_run(part: Any) -> None:
            if self.is_active and (not name or part.controller.name == name):
                self.failures += 1
                raise OSError("broken\nfor the test")
            await run(part)

        monkeypatch.setattr(cls, "run", fail_or_run)


async def test_failed_scheduler_is_named_and_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, Scheduler)
    async with running_cluster() as assembly:
        await eventually(lambda: failing.failures)
        components = await read_components(assembly)
        assert components["kube-scheduler"] == ("[-]component/kube-scheduler failed: OSError: broken for the test")
        assert components["kube-controller-manager"] == "[+]component/kube-controller-manager ok"
        single = await read(assembly, "/readyz/component/kube-scheduler")
        assert (single.code, single.body) == (500, b"internal server error: OSError: broken for the test\n")
        assert b"scheduler failed: reason withheld\n" in (await read(assembly, "/readyz?verbose", ANYBODY)).body
        assert (await read(assembly, "/readyz?verbose&exclude=component/kube-scheduler")).code == 200
        assert b"component/" not in (await read(assembly, "/livez?verbose")).body
        statuses = assembly.client("test").for_kind(ComponentStatus)
        (condition,) = (await statuses.get("scheduler")).conditions
        assert (condition.status, condition.error) == ("False", "OSError: broken for the test")
        (condition,) = (await statuses.get("controller-manager")).conditions
        assert condition.status == "True"
        failing.is_active = False
        await eventually(lambda: assembly.scheduler is not None and assembly.scheduler.informers is not None)


async def test_failed_controller_leaves_the_others_running(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, ControllerRunner, name="root-ca-certificate-publisher-controller")
    async with running_cluster(root_ca=b"a CA") as assembly:
        await eventually(lambda: failing.failures)
        manager = assembly.controllers
        line = (await read_components(assembly))["kube-controller-manager"]
        assert "root-ca-certificate-publisher-controller: OSError: broken for the test" in line
        client = assembly.client("test")
        await client.for_kind(Namespace).create(Namespace(metadata=ObjectMeta(name="a")))
        accounts = client.for_kind(ServiceAccount)
        await eventually(lambda: accounts.get("default", "a"), ignore=(NotFound,))
        failing.is_active = False
        maps = client.for_kind(ConfigMap)
        await eventually(lambda: maps.get("kube-root-ca.crt", "default"), ignore=(NotFound,))
        assert assembly.controllers is manager


async def test_failed_informer_is_restarted_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[str] = []
    read_metadata = loopback._metadata

    def fail(item: Any) -> Any:
        if failures and failures[-1] == "mended":
            return read_metadata(item)
        failures.append(item.key)
        raise AttributeError("no metadata")

    monkeypatch.setattr(loopback, "_metadata", fail)
    async with running_cluster() as assembly:
        await eventually(lambda: failures)
        manager = assembly.controllers
        line = (await read_components(assembly))["kube-controller-manager"]
        assert "informer of configmaps: AttributeError: no metadata" in line
        failures.append("mended")
        assert manager is not None
        await eventually(manager_synced(manager))
        assert assembly.controllers is manager


def manager_synced(manager: ControllerManager) -> Any:
    return lambda: all(informer.synced.is_set() for informer in manager.informers._informers.values())


async def test_failed_leader_releases_its_lease_and_leads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, Scheduler)
    async with running_cluster(leader_election=LeadershipConfig(lease_s=60, renew_s=40, retry_s=0.1)) as assembly:
        await eventually(lambda: failing.failures)
        await eventually(lambda: not assembly.leadership.leads["kube-scheduler"])
        failing.is_active = False
        await eventually(lambda: assembly.leadership.leads["kube-scheduler"] and assembly.scheduler is not None)
        assert assembly.leadership.leads["kube-controller-manager"]


async def test_failure_of_a_component_ends_the_cluster_of_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    Failing(monkeypatch, Scheduler)
    with pytest.raises(OSError, match="broken"):
        async with Cluster(level="nodes", nodes=0):
            await eventually(lambda: False)


def test_failure_of_a_component_is_raised_in_a_test_without_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Failing(monkeypatch, Scheduler)
    cluster = Cluster(level="nodes", nodes=0, clock="virtual")
    cluster.__enter__()
    wait_until(lambda: failing.failures)
    with pytest.raises(RuntimeError, match="OSError: broken for the test"):
        wait_until(lambda: cluster.run(asyncio.sleep(0)))
    with pytest.raises(OSError, match="broken"):
        cluster.__exit__()
