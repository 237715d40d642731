"""The conformance suite for stored resources of an API server, whether their objects are typed or dicts.

For a resource of your own, with pytest:

    pytest.register_assert_rewrite("sampan.testing.registry_conformance")
    from sampan.testing.registry_conformance import CHECKS, Check, Subject, run

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check: Check) -> None:
        run(check, Subject(open=my_server, path="/apis/…/namespaces/default/widgets", content=…, number=…))
"""

from sampan.testing.registry_conformance.concurrency import CHECKS as CROWDING
from sampan.testing.registry_conformance.creates import CHECKS as CREATING
from sampan.testing.registry_conformance.deletes import CHECKS as DELETING
from sampan.testing.registry_conformance.patches import CHECKS as PATCHING
from sampan.testing.registry_conformance.subject import Api, Check, Reply, Subject, run
from sampan.testing.registry_conformance.updates import CHECKS as CHANGING

CHECKS: tuple[Check, ...] = (*CREATING, *CHANGING, *PATCHING, *DELETING, *CROWDING)

__all__ = ["CHECKS", "CROWDING", "Api", "Check", "Reply", "Subject", "run"]
