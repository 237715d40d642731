"""The conformance suite for `sampan.storage.backend.Backend`.

For a backend of your own, with pytest:

    pytest.register_assert_rewrite("sampan.testing.backend_conformance")
    from sampan.testing.backend_conformance import CHECKS, BackendSubject, Check, run

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check: Check) -> None:
        run(check, BackendSubject(open=MyBackend))

A check takes a `BackendSubject`, opens the backend, and fails with an AssertionError (or a timeout) if the backend
violates the contract. The backend may hold other keys and be at any revision; there must be no other writers under the
subject's root during a check.
"""

from sampan.testing.backend_conformance.history import CHECKS as HISTORY
from sampan.testing.backend_conformance.lifecycle import CHECKS as LIFECYCLE
from sampan.testing.backend_conformance.reads import CHECKS as READS
from sampan.testing.backend_conformance.subject import BackendSubject, Check, run
from sampan.testing.backend_conformance.ttl import CHECKS as TTL
from sampan.testing.backend_conformance.watches import CHECKS as WATCHES
from sampan.testing.backend_conformance.writes import CHECKS as WRITES

CHECKS: tuple[Check, ...] = (*READS, *WRITES, *HISTORY, *WATCHES, *TTL, *LIFECYCLE)

__all__ = ["CHECKS", "BackendSubject", "Check", "run"]
