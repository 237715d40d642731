"""The OCI specification of a container, without a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sampan.runtimes.config import ContainerConfig, ContainerSecurity, SandboxConfig
from sampan.runtimes.images.manifests import RunConfig
from sampan.runtimes.oci.spec import SpecInputs, container_spec

NAMESPACES = {"mount": "", "pid": "", "cgroup": "", "network": "/n/network"}


def make_spec(**security: Any) -> dict[str, Any]:
    config = ContainerConfig(
        name="c", image="i", command=("/c",), log_path=Path("/l"), security=ContainerSecurity(**security)
    )
    sandbox = SandboxConfig(uid="u", namespace="ns", name="p", log_directory=Path("/l"))
    return container_spec(config, sandbox, RunConfig(), SpecInputs(root=Path("/r"), namespaces=NAMESPACES))


def test_namespaces_without_path_are_new() -> None:
    assert make_spec()["linux"]["namespaces"] == [
        {"type": "mount"},
        {"type": "pid"},
        {"type": "cgroup"},
        {"type": "network", "path": "/n/network"},
    ]


@pytest.mark.parametrize(("is_privileged", "option"), [(False, "ro"), (True, "rw")])
def test_only_privileged_containers_may_write_cgroups(is_privileged: bool, option: str) -> None:
    spec = make_spec(is_privileged=is_privileged, read_only_paths=("/proc/sys",))
    [cgroups] = [mount for mount in spec["mounts"] if mount["destination"] == "/sys/fs/cgroup"]
    assert option in cgroups["options"]
    assert spec["linux"]["readonlyPaths"] == ([] if is_privileged else ["/proc/sys", "/sys/fs/cgroup"])
