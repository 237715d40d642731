"""Classic policies: the plugins, arguments and weights for each predicate and priority."""

from typing import Any

import pytest
import yaml

from sampan.machinery.config_file import ConfigFileError
from sampan.scheduler.classic.policy import (
    PREDICATES,
    PRIORITIES,
    PROVIDERS,
    config_of,
    parse_policy,
    profile_of,
)
from sampan.scheduler.framework.framework import Framework
from sampan.scheduler.simulation import Simulation

MANDATORY = ["NodeUnschedulable", "TaintToleration"]


def profile(**policy: Any) -> Framework:
    return Simulation(profile=profile_of(parse_policy(yaml.safe_dump(policy)))).profile


def names(plugins: Any) -> list[str]:
    return [plugin.name for plugin in plugins]


def test_sample_policy_selects_plugins_and_weights() -> None:
    framework = profile(
        kind="Policy",
        apiVersion="v1",
        predicates=[
            {"name": "PodFitsPorts"},
            {"name": "PodFitsResources"},
            {"name": "NoDiskConflict"},
            {"name": "PodSelectorMatches"},
            {"name": "PodFitsHost"},
            {"name": "RequireRegion", "argument": {"labelsPresence": {"labels": ["region"], "presence": True}}},
            {"name": "SameRegion", "argument": {"serviceAffinity": {"labels": ["region"]}}},
        ],
        priorities=[
            {"name": "LeastRequestedPriority", "weight": 1},
            {"name": "BalancedResourceAllocation", "weight": 1},
            {"name": "ServiceSpreadingPriority", "weight": 2},
            {"name": "EqualPriority", "weight": 1},
            {"name": "RackSpread", "weight": 3, "argument": {"serviceAntiAffinity": {"label": "rack"}}},
            {"name": "Ssd", "weight": 4, "argument": {"labelPreference": {"label": "ssd", "presence": True}}},
        ],
    )
    assert names(framework.points.get_plugins_at("filter")) == [
        *MANDATORY,
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeAffinity",
        "NodeName",
        "RequireRegion",
        "SameRegion",
    ]
    assert {plugin.name: framework.weights[plugin.name] for plugin in framework.points.get_plugins_at("score")} == {
        "NodeResourcesFit": 1,
        "NodeResourcesBalancedAllocation": 1,
        "ServiceSpreadingPriority": 2,
        "RackSpread": 3,
        "Ssd": 4,
    }
    assert names(framework.points.get_plugins_at("bind")) == ["DefaultBinder"]
    assert names(framework.points.get_plugins_at("postFilter")) == ["DefaultPreemption"]


@pytest.mark.parametrize("name", PREDICATES)
def test_predicate_enables_its_filter_plugins(name: str) -> None:
    framework = profile(predicates=[{"name": name}], priorities=[])
    expected = dict.fromkeys([*MANDATORY, *PREDICATES[name]])
    assert names(framework.points.get_plugins_at("filter")) == list(expected)
    assert not framework.points.get_plugins_at("score")


@pytest.mark.parametrize("name", PRIORITIES)
def test_priority_enables_its_score_plugin(name: str) -> None:
    framework = profile(predicates=[], priorities=[{"name": name, "weight": 7}])
    choice = PRIORITIES[name]
    expected = [] if choice is None else [name if choice.args else choice.plugin]
    assert names(framework.points.get_plugins_at("score")) == expected
    assert names(framework.points.get_plugins_at("filter")) == MANDATORY
    assert [framework.weights[plugin] for plugin in expected] == [7] * len(expected)


def test_missing_fields_have_their_defaults() -> None:
    framework, default = profile(), Simulation().profile
    assert set(names(framework.points.get_plugins_at("filter"))) == set(names(default.points.get_plugins_at("filter")))
    expected = {name: default.weights[name] for name in names(default.points.get_plugins_at("score"))}
    del expected["VolumeBinding"]  # it had no scores when there were policies
    assert {name: framework.weights[name] for name in names(framework.points.get_plugins_at("score"))} == expected


def test_least_and_most_requested_priorities_can_be_combined() -> None:
    framework = profile(
        priorities=[{"name": "LeastRequestedPriority", "weight": 1}, {"name": "MostRequestedPriority", "weight": 2}]
    )
    assert names(framework.points.get_plugins_at("score")) == ["NodeResourcesFit", "MostRequestedPriority"]


def test_requested_to_capacity_ratio_priority() -> None:
    argument = {"requestedToCapacityRatioArguments": {"shape": [{"utilization": 0, "score": 0}]}}
    framework = profile(priorities=[{"name": "RequestedToCapacityRatioPriority", "weight": 2, "argument": argument}])
    assert names(framework.points.get_plugins_at("score")) == ["RequestedToCapacityRatioPriority"]


def test_extenders_and_symmetric_weight() -> None:
    text = yaml.safe_dump(
        {
            "extenders": [{"urlPrefix": "http://127.0.0.1:1/x", "filterVerb": "filter"}],
            "hardPodAffinitySymmetricWeight": 10,
        }
    )
    config = config_of(parse_policy(text))
    assert [extender.url_prefix for extender in config.extenders] == ["http://127.0.0.1:1/x"]
    assert config.profiles[0].args["InterPodAffinity"] == {"hardPodAffinityWeight": 10}


def test_default_and_autoscaler_providers_have_equal_score_plugins() -> None:
    default = Simulation(profile=PROVIDERS["DefaultProvider"]).profile
    packing = Simulation(profile=PROVIDERS["ClusterAutoscalerProvider"]).profile
    assert names(default.points.get_plugins_at("score")) == names(packing.points.get_plugins_at("score"))


PREDICATE, PRIORITY = "predicates[0]", "priorities[0]"


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"predicates": [{"name": "Nothing"}]}, f"{PREDICATE}.name: there is no predicate 'Nothing'"),
        ({"priorities": [{"name": "Nothing", "weight": 1}]}, f"{PRIORITY}.name: there is no priority 'Nothing'"),
        ({"predicates": [{"nome": "A"}]}, f"{PREDICATE}: Object contains unknown field `nome`"),
        ({"predicate": []}, "unknown field `predicate`"),
        ({"kind": "Pod"}, "kind: want Policy of v1, not Pod of v1"),
        ({"priorities": [{"name": "EqualPriority"}]}, f"{PRIORITY}: Object missing required field `weight`"),
        ({"priorities": [{"name": "EqualPriority", "weight": 0}]}, f"{PRIORITY}.weight: Priority EqualPriority should"),
        ({"predicates": [{"name": "CheckNodeLabelPresence"}]}, f"{PREDICATE}.argument.labelsPresence: Required value"),
        ({"predicates": [{"name": "CheckServiceAffinity"}]}, f"{PREDICATE}.argument.serviceAffinity: Required value"),
        ({"predicates": [{"name": "A", "argument": {}}]}, f"{PREDICATE}.argument: want exactly one of"),
        (
            {"predicates": [{"name": "PodFitsHost", "argument": {"serviceAffinity": {"labels": ["a"]}}}]},
            f"{PREDICATE}.name: 'PodFitsHost' has no argument",
        ),
        (
            {"priorities": [{"name": "CalculateNodeLabelPriority", "weight": 1}]},
            f"{PRIORITY}.argument.labelPreference: Required value",
        ),
        ({"hardPodAffinitySymmetricWeight": 101}, "hardPodAffinitySymmetricWeight: Invalid value: 101"),
        ({"extenders": [{"urlPrefix": "x", "verb": "y"}]}, "extenders[0]: Object contains unknown field `verb`"),
    ],
)
def test_errors_name_the_field(policy: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        config_of(parse_policy(yaml.safe_dump(policy)))
    assert message in str(caught.value)


def test_policy_may_be_json() -> None:
    assert parse_policy('{"predicates": [{"name": "PodFitsHost"}]}').predicates is not None
    with pytest.raises(ConfigFileError, match="line 1"):
        parse_policy("{")
