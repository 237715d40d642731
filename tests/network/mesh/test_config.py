"""Which mesh backends a machine offers, and the MTU of each."""

from pathlib import Path

import pytest

from sampan.network.mesh import config as mesh_config
from sampan.network.mesh.config import (
    AUTO,
    NONE,
    ROUTES,
    VXLAN,
    WIREGUARD,
    MeshConfig,
    expected_backend,
    is_in_subnet_of,
    tunnel_mtu,
    usable_backends,
)


def config(backend: str) -> MeshConfig:
    return MeshConfig(
        is_own=lambda node: False,
        identity="test",
        cluster=b"CA",
        addresses=["10.0.0.1"],
        backend=backend,
        key_file=Path("key"),
    )


@pytest.mark.parametrize(
    ("backend", "version", "mtu"),
    [(ROUTES, 4, 1500), (WIREGUARD, 4, 1440), (WIREGUARD, 6, 1420), (VXLAN, 4, 1450), (VXLAN, 6, 1430)],
)
def test_tunnel_mtu_is_reduced_by_encapsulation_overhead(backend: str, version: int, mtu: int) -> None:
    assert tunnel_mtu(backend, 1500, version) == mtu


@pytest.mark.parametrize("kinds", [{WIREGUARD, VXLAN}, {VXLAN}, set()])
def test_auto_offers_backends_that_the_kernel_supports(kinds: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_config, "can_create", lambda kind: kind in kinds)
    assert usable_backends(AUTO) == (ROUTES, *(kind for kind in (WIREGUARD, VXLAN) if kind in kinds))
    assert usable_backends(WIREGUARD) == ((WIREGUARD,) if WIREGUARD in kinds else ())
    assert usable_backends(NONE) == ()
    assert expected_backend(config(AUTO), is_near=True) == ROUTES
    assert expected_backend(config(VXLAN), is_near=True) == (VXLAN if VXLAN in kinds else ROUTES)


def test_tunnel_is_expected_for_a_server_in_another_subnet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mesh_config, "can_create", lambda kind: kind == VXLAN)
    assert expected_backend(config(AUTO), is_near=False) == VXLAN
    assert is_in_subnet_of("10.0.0.9", ["10.0.0.1/24"])
    assert not is_in_subnet_of("10.0.1.9", ["10.0.0.1/24"])
