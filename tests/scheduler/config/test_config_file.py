"""KubeSchedulerConfiguration files: what they configure, and the messages for invalid files."""

from contextlib import nullcontext
from typing import Any

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.machinery.config_file import ConfigFileError
from sampan.scheduler.config import DEFAULT_PLUGINS
from sampan.scheduler.config.config_file import API_VERSION, parse_config, parse_text
from sampan.scheduler.config.plugin_args import ArgumentError
from sampan.scheduler.plugins.registry import UnknownSchedulerPlugin
from sampan.scheduler.simulation import Simulation


def config(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "KubeSchedulerConfiguration", **fields}


def profile(**plugins: Any) -> Any:
    (profile_config,) = parse_config(config(profiles=[{"plugins": plugins}])).profiles
    return Simulation(profile=profile_config).profile


def names(plugins: Any) -> list[str]:
    return [plugin.name for plugin in plugins]


def test_an_empty_file_is_the_default() -> None:
    scheduler_config = parse_config(config())
    assert [profile.scheduler_name for profile in scheduler_config.profiles] == ["default-scheduler"]
    assert scheduler_config.profiles[0].plugins == DEFAULT_PLUGINS
    assert (scheduler_config.queue.first_backoff_s, scheduler_config.queue.max_backoff_s) == (1, 10)


def test_plugins_are_disabled_and_weights_changed() -> None:
    configured = profile(
        multiPoint={"disabled": [{"name": "ImageLocality"}], "enabled": [{"name": "TaintToleration", "weight": 9}]},
        score={"disabled": [{"name": "NodeAffinity"}]},
    )
    assert "ImageLocality" not in names(configured.plugins)
    assert "NodeAffinity" in names(configured.points.get_plugins_at("filter"))
    assert "NodeAffinity" not in names(configured.points.get_plugins_at("score"))
    assert configured.weights["TaintToleration"] == 9
    assert names(configured.points.get_plugins_at("filter"))[:3] == ["NodeName", "NodeUnschedulable", "TaintToleration"]


def test_plugins_are_disabled_for_pod_groups_alone() -> None:
    points = profile(podGroupPostFilter={"disabled": [{"name": "DefaultPreemption"}]}).points
    assert names(points.get_plugins_at("podGroupPostFilter")) == ["DynamicResources"]
    assert names(points.get_plugins_at("postFilter")) == ["DynamicResources", "DefaultPreemption"]


def test_only_enabled_plugins_run_when_all_are_disabled() -> None:
    configured = profile(
        multiPoint={
            "disabled": [{"name": "*"}],
            "enabled": [{"name": "PrioritySort"}, {"name": "NodeResourcesFit"}, {"name": "DefaultBinder"}],
        }
    )
    assert names(configured.points.get_plugins_at("filter")) == ["NodeResourcesFit"]
    assert names(configured.points.get_plugins_at("bind")) == ["DefaultBinder"]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Pod", "apiVersion": "v1"}, "not Pod of v1"),
        (config(profile=[]), "Object contains unknown field `profile`"),
        (config(profiles=[{"plugin": {}}]), "profiles[0]: Object contains unknown field `plugin`"),
        (config(profiles=[{"plugins": {"filters": {}}}]), 'profiles[0].plugins.filters: Unsupported value: "filters"'),
        (
            config(profiles=[{}, {}]),
            'profiles[1].schedulerName: Duplicate value: "profiles[0].schedulerName"',
        ),
        (config(profiles=[{"schedulerName": ""}]), "profiles[0].schedulerName: Required value"),
        (
            config(podInitialBackoffSeconds=20),
            "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
        ),
        (config(podInitialBackoffSeconds=0), "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
        (config(parallelism=0), "parallelism: Invalid value: 0: should be an integer value greater than zero"),
        (
            config(percentageOfNodesToScore=101),
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        ),
        (
            config(profiles=[{"percentageOfNodesToScore": -1}]),
            "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        ),
        (
            config(leaderElection={"resourceLock": "configmaps"}),
            'leaderElection.resourceLock: Invalid value: "configmaps": resourceLock value must be "leases"',
        ),
        (config(clientConnection={"burst": -1}), "clientConnection.burst: Invalid value: -1: must be non-negative"),
        (
            config(profiles=[{"pluginConfig": [{"name": "A"}, {"name": "A"}]}]),
            'profiles[0].pluginConfig: Duplicate value: "A"',
        ),
        (
            config(profiles=[{"plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}}}]),
            'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": was invalid in version "v1"',
        ),
        (
            config(profiles=[{}, {"schedulerName": "b", "plugins": {"queueSort": {"enabled": [{"name": "X"}]}}}]),
            "must be the same for all profiles",
        ),
        (
            config(profiles=[{"plugins": {"queueSort": {"enabled": [{"name": "X"}, {"name": "Y"}]}}}]),
            "profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
        ),
        (
            config(extenders=[{"urlPrefix": "http://x", "prioritizeVerb": "p"}]),
            "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        ),
        (
            config(extenders=[{"urlPrefix": "http://x", "bond": "p"}]),
            "extenders[0]: Object contains unknown field `bond`",
        ),
        (
            config(extenders=[{"urlPrefix": "http://x", "bindVerb": "b"}, {"urlPrefix": "http://y", "bindVerb": "b"}]),
            'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
        ),
        (
            config(extenders=[{"urlPrefix": "http://x", "managedResources": [{"name": "cpu"}]}]),
            'extenders[0].managedResources[0].name: Invalid value: "cpu": is an invalid extended resource name',
        ),
        (config(extenders=[{"urlPrefix": "http://x", "httpTimeout": "soon"}]), "extenders[0]: "),
    ],
)
def test_invalid_files_are_rejected(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        parse_config(document)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("plugin", "args", "message"),
    [
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 101},
            "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "cannot be zero at the same time as minCandidateNodesAbsolute",
        ),
        (
            "InterPodAffinity",
            {"hardPodAffinityWeight": 101},
            "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "Mine"},
            'defaultingType: Unsupported value: "Mine": supported values: "System", "List"',
        ),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
            'defaultingType: Invalid value: "System": when .defaultConstraints are not empty',
        ),
        (
            "PodTopologySpread",
            {"defaultingType": "List", "defaultConstraints": [{"topologyKey": "", "whenUnsatisfiable": "No"}]},
            'defaultConstraints[0].whenUnsatisfiable: Unsupported value: "No"',
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "Random"}},
            'scoringStrategy.type: Unsupported value: "Random": supported values: "LeastAllocated", "MostAllocated"',
        ),
        (
            "NodeResourcesFit",
            {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
            "scoringStrategy.requestedToCapacityRatio: Required value",
        ),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 50, "score": 0}, {"utilization": 50, "score": 11}]
                    },
                }
            },
            "shape[1].utilization: Invalid value: 50: values must be sorted in increasing order",
        ),
        (
            "NodeAffinity",
            {
                "addedAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Is"}]}]
                    }
                }
            },
            'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Is": supported values: "In"',
        ),
        ("NodeAffinity", {"added": {}}, "unknown field `added`"),
        (
            "VolumeBinding",
            {"bindTimeoutSeconds": -1},
            "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
        ),
        ("DynamicResources", {"filterTimeout": "-1s"}, 'filterTimeout: Invalid value: "-1s": must be zero or positive'),
        ("DynamicResources", {"bindingTimeout": "500ms"}, "must be at least 1 second"),
        ("DynamicResources", {"bindingTimeout": "soon"}, 'bindingTimeout: Invalid value: "soon"'),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, "resource group name can't contain '/'"),
        ("NodeResourcesFit", {"ignored": []}, "unknown field `ignored`"),
        (
            "NodeResourcesBalancedAllocation",
            {"resources": [{"name": "cpu", "weight": 2}]},
            "resources[0].weight: Invalid value: 2: must be 1",
        ),
    ],
)
def test_invalid_plugin_arguments_are_rejected(plugin: str, args: dict[str, Any], message: str) -> None:
    (profile_config,) = parse_config(config(profiles=[{"pluginConfig": [{"name": plugin, "args": args}]}])).profiles
    with pytest.raises(ArgumentError) as caught:
        Simulation(profile=profile_config)
    assert f"arguments of {plugin}: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("is_enabled", "shape", "message"),
    [
        pytest.param(False, [], "unexpected field `shape`, remove it or turn on the feature gate", id="disabled"),
        pytest.param(True, [{"utilization": 0, "score": 11}], "shape[0].score: Invalid value: 11", id="high score"),
        pytest.param(True, [], "", id="default"),
    ],
)
def test_shape_of_volume_scores_is_validated(is_enabled: bool, shape: Any, message: str) -> None:
    args = [{"name": "VolumeBinding", "args": {"shape": shape}}]
    (profile_config,) = parse_config(config(profiles=[{"pluginConfig": args}])).profiles
    gates = FeatureGates({"StorageCapacityScoring": is_enabled}, level=37)
    with pytest.raises(ArgumentError) if message else nullcontext() as caught:
        Simulation(profile=profile_config, feature_gates=gates)
    assert message in (str(caught.value) if caught is not None else "")


def test_unknown_plugin_is_rejected() -> None:
    with pytest.raises(UnknownSchedulerPlugin, match="Nothing"):
        profile(filter={"enabled": [{"name": "Nothing"}]})


def test_plugin_enabled_at_an_unimplemented_point_is_rejected() -> None:
    with pytest.raises(ArgumentError, match="plugin 'ImageLocality' does not extend filter plugin"):
        profile(filter={"enabled": [{"name": "ImageLocality"}]})


def test_leader_election_and_client_connection_become_flags() -> None:
    document = config(leaderElection={"leaderElect": False}, clientConnection={"kubeconfig": "/k", "qps": 10})
    flags = parse_config(document).flags
    assert (flags["leader_elect"], flags["kubeconfig"], flags["leader_elect_retry_period"]) == (False, "/k", "2s")


def test_percentage_of_nodes_to_score_is_accepted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        parse_config(config(percentageOfNodesToScore=10))
    assert "always evaluates every node" in caplog.text


def test_parse_text() -> None:
    text = f"apiVersion: {API_VERSION}\nkind: KubeSchedulerConfiguration\npodMaxBackoffSeconds: 60\n"
    assert parse_text(text).queue.max_backoff_s == 60
    with pytest.raises(ConfigFileError, match="line 1"):
        parse_text("a: [")
