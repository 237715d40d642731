"""The pytest plugin: a cluster for the whole run, a namespace in it for each test, forks, clients, and a dump of the
cluster in the report of a failed test.

pytest loads it wherever Sampan is installed, so it imports nothing expensive before a fixture is used. Its fixtures
have the prefix `sampan_`; `short_fixtures` offers the same under short names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sampan.testing.errors import UnsupportedByCluster

_READS_KUBECONFIG_WHEN_IMPORTED = ("kubernetes.config.kube_config", "kubernetes_asyncio.config.kube_config")
_OPERATIONS_MODULE = "sampan.testing.cluster_operations"

if TYPE_CHECKING:
    import kr8s
    import lightkube

    from sampan.machinery.client import Client
    from sampan.testing.cluster import Cluster
    from sampan.testing.cluster_operations import ClusterOperations
    from sampan.testing.cluster_pool import ClusterPool

_MARKED_OPTIONS = pytest.StashKey[dict[str, dict[str, Any]]]()
"""The marker arguments of all tests. Tests with equal arguments share one dict, by which pytest groups the tests."""
_NAMESPACES = pytest.StashKey["list[tuple[ClusterOperations, str]]"]()
"""The clusters and namespaces that a test uses."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sampan", "Sampan: a Kubernetes cluster for tests")
    group.addoption(
        "--sampan-level",
        default="",
        metavar="LEVEL",
        help="how much of a cluster sampan_cluster runs: api, controllers, nodes or containers",
    )
    group.addoption(
        "--sampan-store",
        default="memory",
        metavar="STORE",
        help="where sampan_cluster keeps its objects: memory, sqlite, the path of a SQLite file, or URLs of etcd",
    )
    group.addoption(
        "--sampan-controllers",
        default="*",
        metavar="LIST",
        help="the controllers of sampan_cluster, with the words of `sampan up --controllers`",
    )
    group.addoption(
        "--sampan-runtime-config",
        default="",
        metavar="K=V,…",
        help="API versions of sampan_cluster to switch on or off, as of `sampan up --runtime-config`",
    )
    group.addoption(
        "--sampan-kubernetes-version",
        default="",
        metavar="LIST",
        help="the version of Kubernetes as which sampan_cluster behaves; with several, such as 1.35,1.36, each test "
        "runs once on each",
    )
    group.addoption(
        "--sampan-dump",
        type=int,
        default=16384,
        metavar="N",
        help="the maximum length of the dump of the cluster in the report of a failed test, in characters; 0: no dump",
    )
    group.addoption(
        "--sampan-kubeconfig",
        type=Path,
        metavar="FILE",
        help="run the tests against the cluster of this kubeconfig; tests that need forks, faults or virtual time skip",
    )
    group.addoption(
        "--sampan-context",
        default="",
        metavar="NAME",
        help="the context of --sampan-kubeconfig instead of the current one",
    )
    parser.addini("sampan_level", "the default of --sampan-level", default="controllers")
    parser.addini("sampan_short_names", "whether fixtures have short names, too", type="bool", default=True)


def pytest_configure(config: pytest.Config) -> None:
    """Exclude Sampan's modules from assertion rewriting: pytest rewrites everything that comes with a plugin, which is
    slow, and Python 3.11 fails when two threads do so at a time, as the threads of a cluster may."""
    marked = getattr(getattr(config.pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("sampan")
    config.addinivalue_line(
        "markers", "sampan(level=…, nodes=…, clock=…, …): the arguments of the cluster of a test, see sampan.testing"
    )
    if config.getini("sampan_short_names"):
        from sampan.testing import short_fixtures

        config.pluginmanager.register(short_fixtures, "sampan-short-fixtures")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a marked test the cluster with the arguments of its markers; those nearest to the test win. A test for
    several versions of Kubernetes runs once on each."""
    if "sampan_cluster" not in metafunc.fixturenames:
        return
    marks = list(metafunc.definition.iter_markers("sampan"))
    options = {name: value for mark in reversed(marks) for name, value in mark.kwargs.items()}
    versions = options.get("kubernetes_version") or metafunc.config.getoption("--sampan-kubernetes-version").split(",")
    versions = [versions] if isinstance(versions, str) else [version.strip() for version in versions]
    if not marks and len(versions) == 1:
        return
    if any(versions) or "kubernetes_version" in options:
        arguments = [{**options, "kubernetes_version": version} for version in versions]
    else:
        arguments = [options]
    marked_options = metafunc.config.stash.setdefault(_MARKED_OPTIONS, {})
    shared = [marked_options.setdefault(repr(sorted(settings.items())), settings) for settings in arguments]
    names = ["-".join(f"{key}={value}" for key, value in settings.items()) for settings in arguments]
    metafunc.parametrize("sampan_cluster", shared, indirect=True, scope="session", ids=names)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a test that raises UnsupportedByCluster because its cluster cannot do what the test needs."""
    try:
        return (yield)
    except UnsupportedByCluster as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    limit = item.config.getoption("--sampan-dump")
    if report.failed and report.when != "teardown" and limit > 0:
        for cluster, namespace in _namespaces_of(item):
            report.sections.append((f"Sampan cluster, namespace {namespace}", _dump(cluster, namespace, limit)))
    return report


def _namespaces_of(item: pytest.Item) -> list[tuple[ClusterOperations, str]]:
    """Return the clusters and namespaces that a test uses. For a cluster that it uses without a namespace fixture, the
    namespace is `default`."""
    operations = sys.modules.get(_OPERATIONS_MODULE)
    if operations is None:
        return []
    namespaces = [*item.stash.setdefault(_NAMESPACES, [])]
    values = getattr(item, "funcargs", {}).values()
    for cluster in [value for value in values if isinstance(value, operations.ClusterOperations)]:
        if not any(cluster is seen_cluster for seen_cluster, _ in namespaces):
            namespaces.append((cluster, "default"))
    return namespaces


def _dump(cluster: ClusterOperations, namespace: str, limit: int) -> str:
    try:
        return cluster.dump(namespace, limit=limit)
    except Exception as error:  # the report of the test is more important than its dump
        return f"the cluster cannot be dumped: {type(error).__name__}: {error}"


# -- clusters --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def sampan_options(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The arguments of `sampan.testing.Cluster` for `sampan_cluster`. Override the fixture to change them."""
    from sampan.api.resources import runtime_config

    words = pytestconfig.getoption("--sampan-controllers").split(",")
    return {
        "level": pytestconfig.getoption("--sampan-level") or pytestconfig.getini("sampan_level"),
        "store": pytestconfig.getoption("--sampan-store"),
        "controllers": tuple(word.strip() for word in words if word.strip()),
        "runtime_config": runtime_config.parse(pytestconfig.getoption("--sampan-runtime-config")),
        "kubernetes_version": pytestconfig.getoption("--sampan-kubernetes-version").partition(",")[0].strip(),
    }


@pytest.fixture(scope="session")
def sampan_pool(pytestconfig: pytest.Config) -> Iterator[ClusterPool]:
    """All clusters of the run, by their arguments."""
    from sampan.testing.cluster_pool import ClusterPool

    kubeconfig, context = pytestconfig.getoption("--sampan-kubeconfig"), pytestconfig.getoption("--sampan-context")
    with ClusterPool(kubeconfig=kubeconfig, context=context) as pool:
        yield pool


@pytest.fixture(scope="session")
def sampan_cluster(
    request: pytest.FixtureRequest, sampan_pool: ClusterPool, sampan_options: dict[str, Any]
) -> ClusterOperations:
    """A cluster that all tests of the run share, except tests whose marker asks for another one; under pytest-xdist
    each worker has its own. With --sampan-kubeconfig it is the cluster of that
    file."""
    from sampan.runtimes.choice import NoRuntime

    try:
        return sampan_pool.cluster(sampan_options, getattr(request, "param", {}))
    except UnsupportedByCluster as error:
        pytest.skip(str(error))
    except NoRuntime as error:
        pytest.skip(f"no container runtime is usable: {error}")


@pytest.fixture
def sampan_fork(sampan_cluster: Cluster) -> Iterator[Cluster]:
    """A fork of `sampan_cluster` for this test alone: the same objects, independent afterwards."""
    try:
        fork = sampan_cluster.fork()
    except UnsupportedByCluster as error:
        pytest.skip(str(error))
    with fork:
        yield fork


@pytest.fixture
def sampan_test_cluster(request: pytest.FixtureRequest, sampan_cluster: Cluster) -> Cluster:
    """The cluster of this test: its fork if it uses `sampan_fork`, otherwise `sampan_cluster`."""
    is_forked = "sampan_fork" in request.fixturenames
    cluster: Cluster = request.getfixturevalue("sampan_fork") if is_forked else sampan_cluster
    return cluster


@pytest.fixture
def sampan_namespace(request: pytest.FixtureRequest, sampan_test_cluster: Cluster) -> Iterator[str]:
    """The name of a namespace that only this test uses."""
    with sampan_test_cluster.namespace() as name:
        request.node.stash.setdefault(_NAMESPACES, []).append((sampan_test_cluster, name))
        yield name


@pytest.fixture(scope="module")
def sampan_module_namespace(sampan_cluster: Cluster) -> Iterator[str]:
    """The name of a namespace of `sampan_cluster` that the tests of a module share."""
    with sampan_cluster.namespace() as name:
        yield name


@pytest.fixture(scope="session")
def sampan_session_namespace(sampan_cluster: Cluster) -> Iterator[str]:
    """The name of a namespace of `sampan_cluster` that all tests of the run share."""
    with sampan_cluster.namespace() as name:
        yield name


@pytest.fixture
def sampan_kubeconfig(sampan_test_cluster: Cluster, sampan_namespace: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig file with the namespace of the test. KUBECONFIG is set to it during the test, so that kubectl and
    client libraries use the cluster without further configuration."""
    path = sampan_test_cluster.kubeconfig_for(sampan_namespace)
    monkeypatch.setenv("KUBECONFIG", str(path))
    for name in _READS_KUBECONFIG_WHEN_IMPORTED:
        if name in sys.modules:
            monkeypatch.setattr(f"{name}.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    return path


# -- clients ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def sampan_client(sampan_test_cluster: Cluster) -> Client:
    """Sampan's own client of the cluster; `sampan_cluster.run` runs its coroutines."""
    return sampan_test_cluster.client


@pytest.fixture
def sampan_kubernetes_client(sampan_kubeconfig: Path) -> Iterator[Any]:
    """An ApiClient of the package `kubernetes`: `CoreV1Api(sampan_kubernetes_client)`."""
    from sampan.testing import client_libraries

    with client_libraries.kubernetes_client(sampan_kubeconfig) as client:
        yield client


@pytest.fixture
def sampan_kubernetes_asyncio_client(sampan_kubeconfig: Path) -> Callable[[], Any]:
    """A function that creates an ApiClient of the package `kubernetes_asyncio` in the event loop of the caller."""
    from sampan.testing import client_libraries

    return client_libraries.kubernetes_asyncio_client(sampan_kubeconfig)


@pytest.fixture
def sampan_kr8s_client(sampan_kubeconfig: Path, sampan_namespace: str) -> kr8s.Api:
    """The API object of the package `kr8s`, with the namespace of the test."""
    from sampan.testing import client_libraries

    return client_libraries.kr8s_client(sampan_kubeconfig, sampan_namespace)


@pytest.fixture
def sampan_lightkube_client(sampan_kubeconfig: Path, sampan_namespace: str) -> lightkube.Client:
    """A Client of the package `lightkube`, with the namespace of the test."""
    from sampan.testing import client_libraries

    return client_libraries.lightkube_client(sampan_kubeconfig, sampan_namespace)
