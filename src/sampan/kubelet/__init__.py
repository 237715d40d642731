"""The kubelet registers its node, keeps its lease and status current, and runs the pods that are bound to it.

This package is the agent of one node, or of a fleet of hollow nodes in one process (Kubernetes: `pkg/kubelet`,
`pkg/kubemark`). Decisions are pure functions of pods and runtime reports (`pod_actions`, `pod_status`,
`pod_conditions`, `admission`, `node_status`); the sync loop, the status manager and the heartbeats carry them out. What
a node does at each point of a pod's life is behind one interface (`pod_lifecycle`). Container runtimes are in
`sampan.runtimes`.
"""
