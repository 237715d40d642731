"""What end-to-end tests share."""

from pathlib import Path

import pytest

from tests.e2e.kubectl.command import Kubectl, find


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home for kubectl's caches, so that what other clusters left there misleads nobody."""
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture
def kubectl(sampan_kubeconfig: Path, kubectl_home: Path) -> Kubectl:
    """The real kubectl, in a namespace of the test's own."""
    program = find()
    if program is None:
        pytest.skip("there is no kubectl here")
    return Kubectl(program=program, kubeconfig=sampan_kubeconfig, home=kubectl_home)
