"""One host image for all nodes of a module: to create it takes longer than most tests."""

from collections.abc import Iterator

import pytest

from sampan.runtimes.images import host


@pytest.fixture(scope="module", autouse=True)
def _shared_host_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    make, directory = host.host_root, tmp_path_factory.mktemp("host")
    roots: list[host.HostRoot] = []

    def host_root(*args: object) -> host.HostRoot:
        if not roots:
            roots.append(make(directory))
        return roots[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "host_root", host_root)
        yield
