"""The conformance suite for stored resources of an API server, whether their objects are typed or dicts.

For a resource of your own, with pytest:

    pytest.register_assert_rewrite("sampan.testing.registry_conformance")
    from sampan.testing.registry_conformance import CHECKS, Check, Subject, run

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check: Check) -> None:
        run(check, Subject(open=my_server, path="/apis/…/namespaces/default/widgets", content=…, number=…))
"""

from sampan.testing.registry_conformance.changing import CHECKS as CHANGING
from sampan.testing.registry_conformance.creating import CHECKS as CREATING
from sampan.testing.registry_conformance.crowding import CHECKS as CROWDING
from sampan.testing.registry_conformance.deleting import CHECKS as DELETING
from sampan.testing.registry_conformance.patching import CHECKS as PATCHING
from sampan.testing.registry_conformance.subject import Api, Check, Reply, Subject, run

CHECKS: tuple[Check, ...] = (*CREATING, *CHANGING, *PATCHING, *DELETING, *CROWDING)

__all__ = ["CHECKS", "CROWDING", "Api", "Check", "Reply", "Subject", "run"]
