"""The conformance suite for `sampan.runtimes.contract.Runtime`.

For a runtime of your own, with pytest:

    pytest.register_assert_rewrite("sampan.testing.runtime_conformance")
    from sampan.testing.runtime_conformance import CHECKS, Check, Subject, run, skip_reason

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
    def test_conformance(check: Check, tmp_path: Path) -> None:
        subject = Subject(open=MyRuntime, directory=tmp_path, image="busybox")
        if why := skip_reason(check, subject):
            pytest.skip(why)
        run(check, subject)

A check declares the features that it needs. `Subject.lacks` names the features that the runtime does not have, with the
reasons; the runtime must raise `Unsupported` when such a feature is used. The image contains busybox. After each check,
nothing of its pods may be left in the runtime or on the machine.
"""

from sampan.testing.runtime_conformance.container_config import CHECKS as CONTAINER_CONFIG
from sampan.testing.runtime_conformance.containers import CHECKS as CONTAINERS
from sampan.testing.runtime_conformance.images import CHECKS as IMAGES
from sampan.testing.runtime_conformance.logs import CHECKS as LOGS
from sampan.testing.runtime_conformance.restarts import CHECKS as RESTARTS
from sampan.testing.runtime_conformance.sandboxes import CHECKS as SANDBOXES
from sampan.testing.runtime_conformance.streaming import CHECKS as STREAMING
from sampan.testing.runtime_conformance.subject import Check, Feature, Subject, run, skip_reason

CHECKS: tuple[Check, ...] = (*SANDBOXES, *CONTAINERS, *CONTAINER_CONFIG, *LOGS, *STREAMING, *IMAGES, *RESTARTS)

__all__ = ["CHECKS", "Check", "Feature", "Subject", "run", "skip_reason"]
