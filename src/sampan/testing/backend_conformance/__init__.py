"""Checks that every `sampan.storage.backend.Backend` passes.

For a backend of your own, with pytest:

    pytest.register_assert_rewrite("sampan.testing.backend_conformance")
    from sampan.testing.backend_conformance import CHECKS, Check, Subject, run

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_conformance(check: Check) -> None:
        run(check, Subject(open=MyBackend))

A check takes a `Subject`, opens the store, and fails with an AssertionError (or a time-out) if the store breaks the
contract. The store may hold other keys and be at any revision; nobody else writes under the subject's root meanwhile.
"""

from sampan.testing.backend_conformance import history, lifecycle, reads, ttl, watches, writes
from sampan.testing.backend_conformance.subject import Check, Subject, run

CHECKS: tuple[Check, ...] = (
    *reads.CHECKS,
    *writes.CHECKS,
    *history.CHECKS,
    *watches.CHECKS,
    *ttl.CHECKS,
    *lifecycle.CHECKS,
)

__all__ = ["CHECKS", "Check", "Subject", "run"]
