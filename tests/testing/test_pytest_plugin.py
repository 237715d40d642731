"""The pytest plugin, tested with separate pytest runs."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.eventually import wait_until

pytest_plugins = ["pytester"]

USES = """
    import os
    from sampan.api.types.core_v1 import ConfigMap, Namespace
    from sampan.machinery.client import Selection
    from sampan.testing.builders import config_map
    import pytest

    @pytest.mark.parametrize("number", range(4))
    def test_namespaces_are_isolated(sampan_cluster, sampan_client, sampan_namespace, number):
        maps = sampan_client.for_kind(ConfigMap)
        sampan_cluster.run(maps.create(config_map("same-name"), sampan_namespace))
        items = sampan_cluster.run(maps.list(Selection(namespace=sampan_namespace))).items
        assert "same-name" in [item.metadata.name for item in items]

    def test_kubeconfig_variable_is_set(sampan_kubeconfig, sampan_namespace):
        assert os.environ["KUBECONFIG"] == str(sampan_kubeconfig)
        assert sampan_namespace in sampan_kubeconfig.read_text()

    def test_kubeconfig_variable_is_restored():
        assert os.environ.get("KUBECONFIG") == "before"
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("KUBECONFIG", "before")
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("tmp")))
    pytester.makepyfile(USES)
    return pytester


def list_remaining_directories(project: pytest.Pytester) -> list[Path]:
    """Return the directories of clusters that still exist."""
    return list((project.path / "tmp").glob("sampan*"))


def test_fixtures_and_failure_reports_with_cluster_dumps_work_with_xdist(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_failures="""
        SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": {"key": "x7y"}}
        SPEC = {"containers": [{"name": "main", "image": "nowhere"}]}
        POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lonely"}, "spec": SPEC}

        def test_with_a_cluster(cluster, namespace):
            cluster.apply([SECRET, POD], namespace=namespace)
            cluster.wait_for("pod/lonely", "condition=PodScheduled=False", namespace=namespace)
            cluster.wait_for("pod/lonely", "condition=Ready", namespace=namespace, timeout_s=0.1)

        def test_without_a_cluster():
            assert False
    """
    )
    result = project.runpytest_subprocess("-q", "-n", "2")
    result.assert_outcomes(passed=6, failed=2)
    assert list_remaining_directories(project) == []
    result.stdout.fnmatch_lines(
        [
            "*WaitTimeout: pod/lonely in namespace test-*: condition=Ready was not met within 0.1 s*",
            "*condition: PodScheduled=False*no nodes available to schedule pods*",
            "*- Sampan cluster, namespace test-* -*",
            "*name: lonely*",
            "*-- recent writes*",
        ]
    )
    report = result.stdout.str()
    assert "eDd5" not in report
    assert "***" in report
    assert report.count("Sampan cluster, namespace") == 1


def test_command_line_options_and_sampan_options_fixture(project: pytest.Pytester) -> None:
    """The options set the store, the controllers and the API versions; the fixture overrides them."""
    project.makeconftest("""
        import pytest

        @pytest.fixture(scope="session")
        def sampan_options(sampan_options):
            return {**sampan_options, "insecure": True}
    """)
    project.makepyfile(
        test_settings="""
        import urllib.request

        from sampan.api.types.core_v1 import ServiceAccount
        from sampan.machinery.client import Selection

        def test_no_service_accounts(sampan_cluster, sampan_namespace):
            accounts = sampan_cluster.client.for_kind(ServiceAccount)
            assert sampan_cluster.run(accounts.list(Selection(namespace=sampan_namespace))).items == []

        def test_alpha_version_is_served(sampan_cluster):
            assert "v1alpha2" in sampan_cluster.assembly.server.scheme.versions("coordination.k8s.io")

        def test_plain_http(sampan_cluster):
            with urllib.request.urlopen(sampan_cluster.insecure_url + "/readyz", timeout=60) as response:
                assert response.read() == b"ok"
    """
    )
    file = project.path / "state.db"
    options = ("--sampan-controllers=namespace-controller", "--sampan-runtime-config=coordination.k8s.io/v1alpha2=true")
    project.runpytest_subprocess("-q", f"--sampan-store={file}", *options).assert_outcomes(passed=9)
    assert file.exists()


@pytest.fixture(scope="module")
def loaded_cluster() -> Iterator[Cluster]:
    """A cluster that has imported all its modules before `pytester` starts. At its end, `pytester` unloads every module
    that was imported since then; later clusters of this process would fail, because numpy cannot be imported twice."""
    with Cluster() as cluster:
        cluster.warm_up()
        wait_until(lambda: cluster.assembly.scheduler is not None and cluster.assembly.fleet is not None)
        yield cluster


def test_invalid_option_is_reported(loaded_cluster: Cluster, pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_start(sampan_cluster): pass")
    result = pytester.runpytest_inprocess("-q", "--sampan-controllers=nonsense")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['*"nonsense" is not in the list of known controllers*'])


def test_plugin_imports_no_heavy_modules_and_rewrites_no_assertions_of_sampan(pytester: pytest.Pytester) -> None:
    """Python 3.11 fails when two threads import modules and both work on syntax trees."""
    pytester.makepyfile("""
        import sys

        def test_no_heavy_modules_are_imported():
            heavy = {"aiohttp", "cryptography", "msgspec", "sampan.apiserver", "sampan.testing.cluster"}
            assert heavy & set(sys.modules) == set()

        def test_loader_is_the_default():
            from importlib.machinery import SourceFileLoader
            import sampan.controllers.manager

            assert type(sampan.controllers.manager.__loader__) is SourceFileLoader
    """)
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=2)


def test_example_project_with_50_tests_passes(repository: Path) -> None:
    """Only tests with forks and faults run; `pytest -n 2` in the directory runs all."""
    project = repository / "examples/pytest-project"
    part = ("-k", "greeter or default or few_errors or prepared")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *part]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "14 passed, 36 deselected" in run.stdout


def test_fixtures_short_names_markers_forks_and_clients(project: pytest.Pytester) -> None:
    project.makeconftest("""
        import pytest

        @pytest.fixture(scope="session")
        def sampan_cluster(sampan_cluster):
            sampan_cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: prepared}}")
            return sampan_cluster
    """)
    project.makepyfile(
        test_short_names="""
        import asyncio
        import os

        import pytest

        def test_short_names(cluster, sampan_cluster, namespace, sampan_namespace, kubeconfig):
            assert cluster is sampan_cluster
            assert namespace == sampan_namespace
            assert os.environ["KUBECONFIG"] == str(kubeconfig)

        @pytest.mark.sampan(level="nodes", nodes=2, clock="virtual")
        class TestMarked:
            def test_nodes(self, cluster):
                assert len(cluster.list("nodes")) == 2
                cluster.advance(minutes=1)

            @pytest.mark.sampan(nodes=3)
            def test_innermost_marker_overrides(self, cluster):
                assert len(cluster.list("nodes")) == 3

            def test_forked_cluster(self, cluster, forked_cluster, namespace, kubernetes_client):
                assert kubernetes_client.configuration.host == forked_cluster.url != cluster.url
                forked_cluster.delete("configmap/prepared")
                assert forked_cluster.list("pods", namespace=namespace) == []
                cluster.get("configmap/prepared")

        @pytest.mark.sampan(level="api")
        def test_no_controllers(cluster, namespace):
            assert cluster.list("serviceaccounts", namespace=namespace) == []

        def test_client_libraries(kubernetes_client, kr8s_client, lightkube_client, namespace):
            import kubernetes
            from lightkube.resources.core_v1 import ServiceAccount

            accounts = kubernetes.client.CoreV1Api(kubernetes_client).list_namespaced_service_account(namespace).items
            assert [account.metadata.name for account in accounts] == ["default"]
            assert [account.name for account in kr8s_client.get("serviceaccounts")] == ["default"]
            assert [account.metadata.name for account in lightkube_client.list(ServiceAccount)] == ["default"]

        def test_asynchronous_client_library(kubernetes_asyncio_client, namespace):
            from kubernetes_asyncio.client import CoreV1Api

            async def names():
                async with kubernetes_asyncio_client() as api:
                    accounts = await CoreV1Api(api).list_namespaced_service_account(namespace)
                    return [account.metadata.name for account in accounts.items]

            assert asyncio.run(names()) == ["default"]

        def test_missing_library_is_named(monkeypatch, request):
            import sys

            monkeypatch.setitem(sys.modules, "kr8s", None)
            with pytest.raises(ImportError, match="needs the package kr8s: pip install kr8s"):
                request.getfixturevalue("kr8s_client")
    """
    )
    project.runpytest_subprocess("-q").assert_outcomes(passed=14)
    assert list_remaining_directories(project) == []


def test_fixtures_of_a_project_override_short_names(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest

        @pytest.fixture
        def namespace():
            return "mine"
    """)
    pytester.makepyfile("""
        import pytest

        @pytest.fixture
        def cluster():
            return "own cluster"

        @pytest.mark.parametrize("kubeconfig", [1])
        def test_values(cluster, namespace, kubeconfig):
            assert (cluster, namespace, kubeconfig) == ("own cluster", "mine", 1)
    """)
    pytester.runpytest_inprocess("-q").assert_outcomes(passed=1)


def test_short_names_can_be_disabled(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nsampan_short_names = false")
    pytester.makepyfile("def test_start(cluster): pass")
    result = pytester.runpytest_inprocess("-q")
    result.stdout.fnmatch_lines(["*fixture 'cluster' not found*"])


def test_unsupported_tests_are_skipped_with_an_external_cluster(
    loaded_cluster: Cluster, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile("""
        import pytest

        def test_objects(cluster, namespace, kubernetes_client):
            cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: map}}", namespace=namespace)
            assert "map" in [item["metadata"]["name"] for item in cluster.list("cm", namespace=namespace)]
            assert kubernetes_client.configuration.host == cluster.url

        @pytest.mark.sampan(level="nodes")
        def test_nodes_are_assumed(cluster):
            assert cluster.list("nodes") == []

        def test_faults(cluster):
            with cluster.fault(error=500):
                pass

        def test_forks(forked_cluster):
            pass

        @pytest.mark.sampan(clock="virtual")
        def test_time(cluster):
            pass

        def test_more_time(cluster):
            cluster.advance(minutes=1)
    """)
    result = pytester.runpytest_subprocess("-q", "-rs", "--sampan-kubeconfig", str(loaded_cluster.kubeconfig))
    result.assert_outcomes(passed=2, skipped=4)
    result.stdout.fnmatch_lines_random(
        [
            "*faults can be injected only into a cluster in this process",
            "*an external cluster cannot be forked",
            "*an external cluster cannot be started with clock",
        ]
    )


OTHER_OPTION = """
    import pytest

    def pytest_addoption(parser):
        parser.addoption("--kubeconfig", default="theirs")

    @pytest.fixture
    def kubeconfig_option(request):
        return request.config.getoption("--kubeconfig")
"""
USES_OTHER_OPTION = """
    def test_option(kubeconfig_option, request):
        assert kubeconfig_option == "mine"
        assert request.config.getoption("--sampan-kubeconfig") is None
"""


@pytest.mark.parametrize("place", ["conftest", "plugin loaded first", "plugin loaded later"])
def test_options_of_projects_and_other_plugins_do_not_collide(pytester: pytest.Pytester, place: str) -> None:
    pytester.makepyfile(USES_OTHER_OPTION)
    if place == "conftest":
        pytester.makeconftest(OTHER_OPTION)
        words = []
    else:
        pytester.makepyfile(other_plugin=OTHER_OPTION)
        pytester.syspathinsert()
        order = ["other_plugin", "sampan.testing.pytest_plugin"]
        # With the entry point disabled, the two plugins are loaded in the order of these arguments.
        words = ["-p", "no:sampan"]
        for name in order if place == "plugin loaded first" else reversed(order):
            words += ["-p", name]
    pytester.runpytest_subprocess("-q", "--kubeconfig=mine", *words).assert_outcomes(passed=1)


def test_namespaces_of_modules_and_sessions_are_shared(pytester: pytest.Pytester) -> None:
    module = """
    def test_first(module_namespace, session_namespace, sampan_namespace, request, cluster):
        cluster.get(f"namespace/{module_namespace}")
        assert len({module_namespace, session_namespace, sampan_namespace}) == 3
        print("names", module_namespace, session_namespace)

    def test_second(module_namespace, session_namespace):
        print("names", module_namespace, session_namespace)
    """
    pytester.makepyfile(test_a=module, test_b=module)
    result = pytester.runpytest_inprocess("-q", "-s", "--sampan-level=api")
    result.assert_outcomes(passed=4)
    names = [line.split("names ")[1].split() for line in result.outlines if "names " in line]
    assert len({module for module, _ in names}) == 2
    assert len({session for _, session in names}) == 1
    assert names[0] == names[1]


def test_reports_of_rejected_objects_show_only_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_rejected(cluster):
            cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "dat": {}})
    """)
    result = pytester.runpytest_inprocess("-q", "--sampan-level=api", "--sampan-dump=0")
    result.assert_outcomes(failed=1)
    lines = [line for line in result.outlines if "site-packages" in line or ".py:" in line]
    assert [line for line in lines if "sampan/" in line] == []
    assert len(lines) < 6
    assert "field not declared in schema" in result.stdout.str()
