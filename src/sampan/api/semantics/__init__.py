"""The meaning of API objects that several components must agree on: pure functions, each rule written once.

A rule belongs here if Kubernetes defines it for the API and not for one component: which containers a pod has, whether
a toleration matches a taint, whether a node matches a node selector, who controls an object. Validation and defaults
belong to the registry of the API server. Counterparts: `k8s.io/component-helpers`, `pkg/api/pod`, `pkg/api/v1/pod`,
`pkg/apis/core/v1/helper` and `k8s.io/kubectl/pkg/util/podutils`. The scheduler evaluates taints and node selectors over
columns; its tests compare it with the functions here.
"""
