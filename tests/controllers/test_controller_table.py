"""Every row of the table of controllers builds a controller of the same shape."""

import ast
import inspect
from importlib import import_module
from typing import get_type_hints

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.controllers.controller_table import CONTROLLERS, KUBE_CONTROLLERS
from sampan.controllers.descriptor import COLLABORATORS, ControllerDescriptor
from sampan.controllers.manager import UnknownController, select_controllers

NAMES = """
bootstrap-signer-controller certificatesigningrequest-approving-controller
certificatesigningrequest-cleaner-controller certificatesigningrequest-signing-controller
clusterrole-aggregation-controller cronjob-controller daemonset-controller deployment-controller
device-taint-eviction-controller disruption-controller endpoints-controller endpointslice-controller
endpointslice-mirroring-controller ephemeral-volume-controller garbage-collector-controller
horizontal-pod-autoscaler-controller job-controller kube-apiserver-serving-clustertrustbundle-publisher-controller
legacy-serviceaccount-token-cleaner-controller namespace-controller node-ipam-controller node-lifecycle-controller
persistentvolume-attach-detach-controller persistentvolume-binder-controller persistentvolume-expander-controller
persistentvolume-protection-controller persistentvolumeclaim-protection-controller pod-garbage-collector-controller
podcertificaterequest-cleaner-controller podgroup-protection-controller replicaset-controller
replicationcontroller-controller resourceclaim-controller resourcepoolstatusrequest-controller
resourcequota-controller root-ca-certificate-publisher-controller selinux-warning-controller service-cidr-controller
serviceaccount-controller serviceaccount-token-controller statefulset-controller storage-version-migrator-controller
storageversion-garbage-collector-controller taint-eviction-controller token-cleaner-controller
ttl-after-finished-controller ttl-controller validatingadmissionpolicy-status-controller
volumeattributesclass-protection-controller
"""
"""The controllers that `kube-controller-manager --help` of v1.37 lists."""
IMPLEMENTED = [row for row in CONTROLLERS if row.controller]


def class_of(row: ControllerDescriptor) -> type:
    """Return the class that the row names, or that its factory returns."""
    module, _, attribute = row.controller.partition(":")
    factory = getattr(import_module(module), attribute)
    if isinstance(factory, type):
        return factory
    returned = get_type_hints(factory)["return"]
    controller: type = returned if isinstance(returned, type) else returned.__args__[0]
    return controller


@pytest.mark.parametrize("row", IMPLEMENTED, ids=lambda row: row.name)
def test_the_shape_of_a_controller(row: ControllerDescriptor) -> None:
    controller = class_of(row)
    assert controller.__name__.endswith("Controller")
    assert vars(controller)["name"] == row.name
    parameters = inspect.signature(controller).parameters.values()
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    hints = get_type_hints(inspect.getattr_static(controller, "__init__"))
    collaborators = {name: hints[name] for name in COLLABORATORS if name in hints and name != "config"}
    assert collaborators == {name: COLLABORATORS[name] for name in collaborators}
    assert "watches" not in vars(controller), "watches is an attribute of the instance"
    assert any("self.watches" in inspect.getsource(base) for base in controller.__mro__[:-1])


@pytest.mark.parametrize("row", IMPLEMENTED, ids=lambda row: row.name)
def test_a_module_names_a_factory_only_if_the_class_needs_more_than_collaborators(row: ControllerDescriptor) -> None:
    controller = class_of(row)
    if row.controller.endswith(":make"):
        source = ast.parse(inspect.getsource(import_module(row.controller.partition(":")[0])))
        assert any(isinstance(node, ast.FunctionDef) and node.name == "make" for node in source.body)
    else:
        assert inspect.signature(controller).parameters.keys() <= COLLABORATORS.keys()


def test_names_are_those_of_kube_controller_manager() -> None:
    assert sorted(row.name for row in KUBE_CONTROLLERS) == NAMES.split()
    assert sorted(row.name for row in KUBE_CONTROLLERS if not row.is_on) == [
        "bootstrap-signer-controller",
        "selinux-warning-controller",
        "token-cleaner-controller",
    ]


def test_controller_runs_only_with_its_gates() -> None:
    row = ControllerDescriptor(name="a", gates=("GenericWorkload",))
    assert not row.has_gates(FeatureGates())
    assert row.has_gates(FeatureGates({"GenericWorkload": True}))


def test_controller_that_sampan_lacks_is_refused_only_if_it_would_run() -> None:
    assert "resourcepoolstatusrequest-controller" in select_controllers(["*"])
    assert select_controllers(["-selinux-warning-controller"]) == []
    with pytest.raises(UnknownController, match='"selinux-warning-controller" is not implemented in Sampan'):
        select_controllers(["*", "selinux-warning-controller"])


def test_kube_controller_manager_does_not_know_the_controllers_of_clouds() -> None:
    assert select_controllers(["service-lb-controller"]) == ["service-lb-controller"]
    with pytest.raises(UnknownController, match='"service-lb-controller" is not in the list of known controllers'):
        select_controllers(["-service-lb-controller"], KUBE_CONTROLLERS)
