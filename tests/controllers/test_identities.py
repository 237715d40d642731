"""Every controller is a service account that some role of a new cluster is bound to."""

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.apiserver.authz.rbac.bootstrap_policy import default_objects
from sampan.controllers.controller_table import CONTROLLERS
from sampan.controllers.identities import _ACCOUNTS, NAMESPACE, account_of

BOUND = {
    subject.name
    for obj in default_objects(FeatureGates({"AllAlpha": True, "AllBeta": True}))
    if obj.kind.endswith("Binding")
    for subject in obj.subjects
    if subject.kind == "ServiceAccount" and subject.namespace == NAMESPACE
}


_AS_MANAGER = {"serviceaccount-token-controller"}
"""Controllers that act as the controller manager, because they run before service accounts have tokens."""


@pytest.mark.parametrize("name", [*_ACCOUNTS, *(row.name for row in CONTROLLERS if row.name not in _AS_MANAGER)])
def test_a_controller_has_a_role(name: str) -> None:
    assert account_of(name) in BOUND
