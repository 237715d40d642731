"""The pytest plug-in, in test runs of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

USES = """
    import os
    from sampan.api.types.core_v1 import ConfigMap, Namespace
    from sampan.machinery.client import Selection
    from sampan.testing.builders import config_map
    import pytest

    @pytest.mark.parametrize("number", range(4))
    def test_a_namespace_of_its_own(sampan_cluster, sampan_client, sampan_namespace, number):
        maps = sampan_client.of(ConfigMap)
        sampan_cluster.run(maps.create(config_map("same-name"), sampan_namespace))
        found = sampan_cluster.run(maps.list(Selection(namespace=sampan_namespace))).items
        assert "same-name" in [one.metadata.name for one in found]

    def test_the_environment_leads_there(sampan_kubeconfig, sampan_namespace):
        assert os.environ["KUBECONFIG"] == str(sampan_kubeconfig)
        assert sampan_namespace in sampan_kubeconfig.read_text()

    def test_the_environment_is_put_back():
        assert os.environ.get("KUBECONFIG") == "before"
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("KUBECONFIG", "before")
    monkeypatch.setenv("TMPDIR", str(pytester.mkdir("tmp")))
    pytester.makepyfile(USES)
    return pytester


def test_fixtures(project: pytest.Pytester) -> None:
    project.runpytest_subprocess("-q").assert_outcomes(passed=6)
    assert list((project.path / "tmp").glob("sampan*")) == []


def test_under_xdist(project: pytest.Pytester) -> None:
    project.runpytest_subprocess("-q", "-n", "2").assert_outcomes(passed=6)
    assert list((project.path / "tmp").glob("sampan*")) == []


def test_another_store(project: pytest.Pytester) -> None:
    file = project.path / "state.db"
    project.runpytest_subprocess("-q", f"--sampan-store={file}").assert_outcomes(passed=6)
    assert file.exists()


def test_other_options(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        from sampan.api.types.core_v1 import ServiceAccount
        from sampan.machinery.client import Selection

        def test_no_accounts(sampan_cluster, sampan_namespace):
            accounts = sampan_cluster.client.of(ServiceAccount)
            assert sampan_cluster.run(accounts.list(Selection(namespace=sampan_namespace))).items == []

        def test_an_old_version(sampan_cluster):
            assert "v1alpha2" in sampan_cluster.assembly.server.scheme.versions("coordination.k8s.io")
    """)
    options = ("--sampan-controllers=namespace-controller", "--sampan-runtime-config=coordination.k8s.io/v1alpha2=true")
    pytester.runpytest_subprocess("-q", *options).assert_outcomes(passed=2)


def test_options_can_be_overridden(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest

        @pytest.fixture(scope="session")
        def sampan_options(sampan_options):
            return {**sampan_options, "insecure": True}
    """)
    pytester.makepyfile("""
        import urllib.request

        def test_plain_http(sampan_cluster):
            with urllib.request.urlopen(sampan_cluster.insecure_url + "/readyz", timeout=60) as answer:
                assert answer.read() == b"ok"
    """)
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


def test_a_mistaken_option_is_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(sampan_cluster): pass")
    result = pytester.runpytest_subprocess("-q", "--sampan-controllers=nonsense")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['*"nonsense" is not in the list of known controllers*'])


def test_runs_that_do_not_use_it_pay_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys

        def test_what_is_loaded():
            heavy = {"aiohttp", "cryptography", "msgspec", "sampan.apiserver", "sampan.testing.cluster"}
            assert heavy & set(sys.modules) == set()
    """)
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_the_example_project(repository: Path, options: tuple[str, ...]) -> None:
    project = repository / "examples/pytest-project"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "4 passed" in run.stdout


def test_sampan_itself_is_not_rewritten(pytester: pytest.Pytester) -> None:
    """Two threads that import would otherwise both work on syntax trees, which Python 3.11 cannot bear."""
    pytester.makepyfile("""
        from importlib.machinery import SourceFileLoader
        import sampan.controllers.manager

        def test_the_loader():
            assert type(sampan.controllers.manager.__loader__) is SourceFileLoader
    """)
    pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)
