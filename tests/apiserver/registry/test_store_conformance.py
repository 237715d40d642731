"""Typed and dict-backed resources pass the conformance suite of stored resources."""

import pytest

pytest.register_assert_rewrite("sampan.testing.registry_conformance")

from sampan.testing.registry_conformance import CHECKS, Check, run  # noqa: E402
from tests.apiserver.registry.subjects import SUBJECTS  # noqa: E402


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("resource", SUBJECTS)
def test_conformance(check: Check, resource: str) -> None:
    run(check, SUBJECTS[resource]())
