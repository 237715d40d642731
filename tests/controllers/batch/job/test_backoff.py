"""How long a failed pod's successor waits."""

import pytest

from sampan.controllers.batch.job.pod_state import Failures

NOW = 1_767_225_600.0


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        pytest.param(Failures(), 0, id="none"),
        pytest.param(Failures(1, NOW), 10, id="just now"),
        pytest.param(Failures(3, NOW - 5), 35, id="a while ago"),
        pytest.param(Failures(1, NOW - 3600), 0, id="the clock was set forward"),
        pytest.param(Failures(1, NOW + 5), 15, id="the node's clock is a little ahead"),
        pytest.param(Failures(1, NOW + 3600), 0, id="the clock was set back"),
    ],
)
def test_waits(failures: Failures, expected: float) -> None:
    assert failures.wait_s(NOW) == expected
