"""What tests of network policies share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.network.policy.policy_lab import PolicyLab


@pytest.fixture(scope="module")
def policy_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyLab]:
    lab = PolicyLab(tmp_path_factory.mktemp("spaces"))
    try:
        yield lab
    finally:
        lab.close()
