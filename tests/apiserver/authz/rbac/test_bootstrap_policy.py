"""The roles that every cluster has, and how a cluster comes to have them."""

from typing import Any

from sampan.api.types.rbac_v1 import Subject
from sampan.apiserver.authz import AuthzDecision
from sampan.apiserver.authz.rbac import RbacAuthorizer, RbacIndex
from sampan.apiserver.authz.rbac.bootstrap_policy import AUTO_UPDATE, default_objects, plan_changes
from sampan.apiserver.request.call import UserInfo
from sampan.machinery.copies import copy_of
from tests.apiserver.authz.rbac_objects import asked_path, attributes_of, index_of, rule

USUAL = tuple(default_objects())


def changed(kind: str, name: str) -> tuple[RbacIndex, Any]:
    """An index of the usual objects, one of which may be changed before it is put again."""
    index = index_of(*USUAL)
    role: Any = index.get(kind, "", name)
    return index, copy_of(role)


def test_a_new_cluster_gets_all() -> None:
    assert plan_changes(RbacIndex()).create == list(USUAL)


def test_a_cluster_that_has_all_gets_nothing() -> None:
    changes = plan_changes(index_of(*USUAL))
    assert (changes.create, changes.update, changes.recreate) == ([], [], [])


def test_rules_that_were_taken_away_come_back_and_those_that_were_added_stay() -> None:
    index, role = changed("ClusterRole", "system:discovery")
    rules, own = role.rules, rule("get", urls="/mine")
    role.rules = [own]
    index.put(role)
    (update,) = plan_changes(index).update
    assert update.rules[0] == own
    index.put(update)
    assert plan_changes(index).update == []
    assert {url for rule in update.rules for url in rule.nonResourceURLs} >= set(rules[0].nonResourceURLs)


def test_a_role_that_says_so_is_left_alone() -> None:
    index, role = changed("ClusterRole", "system:discovery")
    role.rules, role.metadata.annotations = [], {AUTO_UPDATE: "false"}
    index.put(role)
    assert plan_changes(index).update == []


def test_subjects_come_back() -> None:
    index, binding = changed("ClusterRoleBinding", "system:discovery")
    ann = Subject(kind="User", apiGroup="rbac.authorization.k8s.io", name="ann")
    binding.subjects = [ann]
    index.put(binding)
    (update,) = plan_changes(index).update
    assert [subject.name for subject in update.subjects] == ["ann", "system:authenticated"]


def test_a_binding_to_another_role_is_made_anew() -> None:
    index, binding = changed("ClusterRoleBinding", "system:discovery")
    binding.roleRef.name = "cluster-admin"
    index.put(binding)
    (again,) = plan_changes(index).recreate
    assert again.roleRef.name == "system:discovery"


def test_what_users_may_do_on_a_new_cluster() -> None:
    authorizer = RbacAuthorizer(index=index_of(*USUAL))
    anonymous = UserInfo("system:anonymous", groups=("system:unauthenticated",))
    scheduler = UserInfo("system:kube-scheduler", groups=("system:authenticated",))
    table = [
        (asked_path("get", "/version", anonymous), True),
        (asked_path("get", "/apis/apps/v1", anonymous), False),
        (asked_path("get", "/apis/apps/v1"), True),
        (asked_path("get", "/metrics"), False),
        (attributes_of("create", "selfsubjectaccessreviews", group="authorization.k8s.io"), True),
        (attributes_of("create", "subjectaccessreviews", group="authorization.k8s.io"), False),
        (attributes_of("create", "pods/binding", scheduler, namespace="ns"), True),
        (attributes_of("get", "secrets", scheduler, namespace="ns"), False),
    ]
    for question, expected in table:
        assert (authorizer.authorize(question).decision is AuthzDecision.ALLOW) is expected, question
