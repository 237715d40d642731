"""The default roles and bindings of a cluster, and their reconciliation."""

from typing import Any

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.rbac_v1 import Subject
from sampan.apiserver.authz import AuthzDecision
from sampan.apiserver.authz.rbac import RbacAuthorizer, RbacIndex
from sampan.apiserver.authz.rbac.bootstrap_policy import AUTO_UPDATE, default_objects, plan_changes
from sampan.apiserver.request.call import UserInfo
from sampan.machinery.copies import copy_of
from tests.apiserver.authz.rbac_objects import attributes_of, index_of, path_attributes, rule

DEFAULTS = tuple(default_objects())


def index_and_copy(kind: str, name: str) -> tuple[RbacIndex, Any]:
    """Return an index of the default objects and a copy of one of them, to be changed and put again."""
    index = index_of(*DEFAULTS)
    role: Any = index.get(kind, "", name)
    return index, copy_of(role)


def test_all_default_objects_are_created_in_a_new_cluster() -> None:
    assert plan_changes(RbacIndex()).create == list(DEFAULTS)


def test_nothing_changes_if_all_default_objects_exist() -> None:
    changes = plan_changes(index_of(*DEFAULTS))
    assert (changes.create, changes.update, changes.recreate) == ([], [], [])


def test_removed_default_rules_are_restored_and_added_rules_are_kept() -> None:
    index, role = index_and_copy("ClusterRole", "system:discovery")
    rules, added = role.rules, rule("get", urls="/mine")
    role.rules = [added]
    index.put(role)
    (update,) = plan_changes(index).update
    assert update.rules[0] == added
    index.put(update)
    assert plan_changes(index).update == []
    assert {url for rule in update.rules for url in rule.nonResourceURLs} >= set(rules[0].nonResourceURLs)


def test_role_with_autoupdate_false_is_not_changed() -> None:
    index, role = index_and_copy("ClusterRole", "system:discovery")
    role.rules, role.metadata.annotations = [], {AUTO_UPDATE: "false"}
    index.put(role)
    assert plan_changes(index).update == []


def test_removed_default_subjects_are_restored() -> None:
    index, binding = index_and_copy("ClusterRoleBinding", "system:discovery")
    ann = Subject(kind="User", apiGroup="rbac.authorization.k8s.io", name="ann")
    binding.subjects = [ann]
    index.put(binding)
    (update,) = plan_changes(index).update
    assert [subject.name for subject in update.subjects] == ["ann", "system:authenticated"]


def test_binding_with_another_role_ref_is_recreated() -> None:
    index, binding = index_and_copy("ClusterRoleBinding", "system:discovery")
    binding.roleRef.name = "cluster-admin"
    index.put(binding)
    (recreated,) = plan_changes(index).recreate
    assert recreated.roleRef.name == "system:discovery"


def test_permissions_of_the_default_roles() -> None:
    authorizer = RbacAuthorizer(index=index_of(*DEFAULTS))
    anonymous = UserInfo("system:anonymous", groups=("system:unauthenticated",))
    scheduler = UserInfo("system:kube-scheduler", groups=("system:authenticated",))
    table = [
        (path_attributes("get", "/version", anonymous), True),
        (path_attributes("get", "/apis/apps/v1", anonymous), False),
        (path_attributes("get", "/apis/apps/v1"), True),
        (path_attributes("get", "/metrics"), False),
        (attributes_of("create", "selfsubjectaccessreviews", group="authorization.k8s.io"), True),
        (attributes_of("create", "subjectaccessreviews", group="authorization.k8s.io"), False),
        (attributes_of("create", "pods/binding", scheduler, namespace="ns"), True),
        (attributes_of("get", "secrets", scheduler, namespace="ns"), False),
    ]
    for attributes, expected in table:
        assert (authorizer.authorize(attributes).decision is AuthzDecision.ALLOW) is expected, attributes


def test_roles_and_rules_of_features_depend_on_their_gates() -> None:
    gates = FeatureGates({"ClusterTrustBundle": False, "CSIVolumeHealth": True, "GenericWorkload": True}, level=37)
    names = {(obj.kind, obj.metadata.name) for obj in default_objects(gates)}
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        assert (kind, "system:cluster-trust-bundle-discovery") not in names
        assert (kind, "system:controller:podgroup-protection-controller") in names
    (node,) = (
        obj for obj in default_objects(gates) if obj.metadata.name == "system:node" and obj.kind == "ClusterRole"
    )
    resources = {resource for rule in node.rules for resource in rule.resources}
    assert {"csinodes/status", "podcertificaterequests"} <= resources
    assert "clustertrustbundles" not in resources


def test_the_level_decides_which_roles_exist() -> None:
    def controllers(level: int) -> set[str]:
        objects = default_objects(FeatureGates(level=level))
        return {obj.metadata.name for obj in objects if obj.metadata.name.startswith("system:controller:")}

    assert {name.rpartition(":")[2] for name in controllers(37) - controllers(36)} == {
        *("kube-apiserver-serving-clustertrustbundle-publisher", "podcertificaterequestcleaner"),
        "storage-version-migrator-controller",
    }
