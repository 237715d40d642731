"""Fixtures of tests of network policies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.network.pods import sysctls
from tests.network.policy.policy_lab import PolicyLab


@pytest.fixture(scope="module")
def routed_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyLab]:
    """Yield a lab that behaves as on a kernel without br_netfilter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sysctls, "enable_bridge_netfilter", _hide_bridged)
        lab = PolicyLab(tmp_path_factory.mktemp("routed"))
        try:
            yield lab
        finally:
            lab.close()


def _hide_bridged() -> bool:
    for family in ("ip", "ip6"):
        Path(f"/proc/sys/net/bridge/bridge-nf-call-{family}tables").write_text("0")
    return False


@pytest.fixture(scope="module")
def policy_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyLab]:
    lab = PolicyLab(tmp_path_factory.mktemp("namespaces"))
    try:
        yield lab
    finally:
        lab.close()
