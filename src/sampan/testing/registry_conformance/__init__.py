"""The conformance suite for stored resources of an API server, whether their objects are typed or dicts.

For a resource of your own, with pytest:

    pytest.register_assert_rewrite("sampan.testing.registry_conformance")
    from sampan.testing.registry_conformance import CHECKS, Check, RegistrySubject, run

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check: Check) -> None:
        run(check, RegistrySubject(open=my_server, path="/apis/…/namespaces/default/widgets", content=…, number=…))
"""

from sampan.testing.registry_conformance.concurrency import CHECKS as CONCURRENCY
from sampan.testing.registry_conformance.creates import CHECKS as CREATES
from sampan.testing.registry_conformance.deletes import CHECKS as DELETES
from sampan.testing.registry_conformance.patches import CHECKS as PATCHES
from sampan.testing.registry_conformance.subject import Api, Check, RegistrySubject, Reply, run
from sampan.testing.registry_conformance.updates import CHECKS as UPDATES

CHECKS: tuple[Check, ...] = (*CREATES, *UPDATES, *PATCHES, *DELETES, *CONCURRENCY)

__all__ = ["CHECKS", "CONCURRENCY", "Api", "Check", "RegistrySubject", "Reply", "run"]
