"""The cache of the resource types that earlier commands have discovered."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sampan.kubectl.client.discovery_cache import DiscoveryCache
from sampan.kubectl.client.resource_type import ResourceType
from sampan.kubectl.client.resource_types import ResourceTypes
from sampan.kubectl.client.session import Session
from sampan.kubectl.errors import KubectlError
from sampan.machinery.client.access import Access

SERVER = "https://10.0.0.1:6443"
PODS = ResourceType("", "v1", "pods", "pod", "Pod", True, ("po",), ("all",), ("get", "list"), ("log",))


def cache(directory: Path, server: str = SERVER, ca: bytes = b"ca") -> DiscoveryCache:
    return DiscoveryCache(directory=str(directory), access=Access(server=server, ca_pem=ca))


def path(directory: Path) -> Path:
    return directory / "discovery" / "10.0.0.1_6443" / "sampan-resources.json"


def test_stored_types_are_loaded_for_the_same_server_only(tmp_path: Path) -> None:
    cache(tmp_path).store([PODS])
    assert cache(tmp_path).load() == [PODS]
    assert cache(tmp_path, server="https://10.0.0.2:6443").load() is None
    assert cache(tmp_path, ca=b"of another cluster at this address").load() is None


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[[", b'{"ca_digest":1,"types":[]}', b"[" * 100_000, b"\xff"])
def test_corrupt_file_counts_as_absent(tmp_path: Path, content: bytes) -> None:
    cache(tmp_path).store([PODS])
    path(tmp_path).write_bytes(content)
    assert cache(tmp_path).load() is None


def test_link_and_pipe_count_as_absent(tmp_path: Path) -> None:
    cache(tmp_path).store([PODS])
    path(tmp_path).rename(tmp_path / "other")
    path(tmp_path).symlink_to(tmp_path / "other")
    assert cache(tmp_path).load() is None
    path(tmp_path).unlink()
    os.mkfifo(path(tmp_path))
    assert cache(tmp_path).load() is None


@pytest.mark.parametrize("age_s", [6 * 3600 + 1, -3600])
def test_old_file_and_file_of_the_future_count_as_absent(tmp_path: Path, age_s: int) -> None:
    cache(tmp_path).store([PODS])
    at = path(tmp_path).stat().st_mtime - age_s
    os.utime(path(tmp_path), (at, at))
    assert cache(tmp_path).load() is None


def test_address_cannot_leave_the_directory(tmp_path: Path) -> None:
    cache(tmp_path / "cache", server="https://a/../../../b").store([PODS])
    assert [file.relative_to(tmp_path).parts[:2] for file in tmp_path.rglob("*.json")] == [("cache", "discovery")]


def test_directory_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "discovery").write_text("")
    cache(tmp_path).store([PODS])
    assert cache(tmp_path).load() is None


class Discovery(Session):
    """A session whose server serves pods and config maps, and counts how often it is discovered."""

    def __init__(self) -> None:
        super().__init__(Access(server=SERVER), "default")
        self.count = 0

    def get(self, path: str, query: object = None, *, accept: str = "") -> dict[str, object]:
        if path != "/api":
            return {"kind": "APIGroupDiscoveryList", "items": []}
        self.count += 1
        resources = [
            {"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced"}
            for plural, kind in (("pods", "Pod"), ("configmaps", "ConfigMap"))
        ]
        versions = [{"version": "v1", "resources": resources}]
        return {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {}, "versions": versions}]}


def test_unknown_type_is_discovered_from_the_server(tmp_path: Path) -> None:
    cache(tmp_path).store([PODS])
    server = Discovery()
    assert ResourceTypes(server, cache(tmp_path)).find_by_name("po") == PODS
    assert server.count == 0
    assert ResourceTypes(server, cache(tmp_path)).find_by_kind("v1", "ConfigMap").plural == "configmaps"
    assert server.count == 1
    types = ResourceTypes(server, cache(tmp_path))
    assert types.find_by_name("configmaps").kind == "ConfigMap"
    assert server.count == 1
    with pytest.raises(KubectlError, match="doesn't have a resource type"):
        types.find_by_name("widgets")
    assert server.count == 2
