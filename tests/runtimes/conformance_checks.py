"""The checks of the conformance suite that apply to a runtime."""

from collections.abc import Container

from sampan.testing.runtime_conformance import CHECKS, Check, Feature


def select_checks(lacks: Container[Feature]) -> list[Check]:
    """Return the checks that need none of the features that a runtime never has. The others are left out instead of
    skipped, since no machine could run them."""
    return [check for check in CHECKS if not any(feature in lacks for feature in check.needs)]
