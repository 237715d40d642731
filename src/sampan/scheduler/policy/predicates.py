"""The names of the legacy predicates and the filter plug-ins that implement them."""

from __future__ import annotations

from collections.abc import Mapping

PREDICATES: Mapping[str, tuple[str, ...]] = {
    "CheckNodeUnschedulable": ("NodeUnschedulable",),
    "PodFitsHost": ("NodeName",),
    "HostName": ("NodeName",),
    "PodSelectorMatches": ("NodeAffinity",),
    "MatchNodeSelector": ("NodeAffinity",),
    "PodFitsPorts": ("NodePorts",),
    "PodFitsHostPorts": ("NodePorts",),
    "PodFitsResources": ("NodeResourcesFit",),
    "GeneralPredicates": ("NodeName", "NodePorts", "NodeAffinity", "NodeResourcesFit"),
    "PodToleratesNodeTaints": ("TaintToleration",),
    "PodToleratesNodeNoExecuteTaints": ("TaintToleration",),
    "CheckNodeCondition": ("TaintToleration",),
    "CheckNodeMemoryPressure": ("TaintToleration",),
    "CheckNodeDiskPressure": ("TaintToleration",),
    "CheckNodePIDPressure": ("TaintToleration",),
    "NoDiskConflict": ("VolumeRestrictions",),
    "NoVolumeZoneConflict": ("VolumeZone",),
    "CheckVolumeBinding": ("VolumeBinding",),
    "NoVolumeNodeConflict": ("VolumeBinding",),
    "MaxCSIVolumeCountPred": ("NodeVolumeLimits",),
    "MaxEBSVolumeCount": ("NodeVolumeLimits",),
    "MaxGCEPDVolumeCount": ("NodeVolumeLimits",),
    "MaxAzureDiskVolumeCount": ("NodeVolumeLimits",),
    "MaxCinderVolumeCount": ("NodeVolumeLimits",),
    "MatchInterPodAffinity": ("InterPodAffinity",),
    "EvenPodsSpread": ("PodTopologySpread",),
}
"""The node condition predicates map to taints, and the cloud volume limits to CSI."""

MANDATORY = ("NodeUnschedulable", "TaintToleration")
"""Filters that apply regardless of the policy: they exclude cordoned nodes and nodes with adverse conditions."""

LABELS_PRESENCE, SERVICE_AFFINITY = "CheckNodeLabelPresence", "CheckServiceAffinity"
"""These predicates require an argument (labelsPresence, serviceAffinity); with one, a predicate may have any name."""
