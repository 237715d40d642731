"""Renewal times of service account tokens in volumes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.kubelet.volumes.volume_host import renewal


@given(st.integers(600, 1 << 32))
def test_tokens_are_renewed_before_they_expire(life_s: int) -> None:
    at = renewal(1000.0 + life_s, float(life_s))
    assert 1000 < at < 1000 + life_s
    assert at <= 1000 + 24 * 3600
    assert life_s > 100_000 or at == pytest.approx(1000 + 0.8 * life_s)
