"""The kubelet: registers its node, keeps it alive, and makes the pods that are bound to it run.

What belongs here is one node's agent, or a fleet of them in one process: decisions are pure functions over pods and
what the runtime reports (`pod_actions`, `pod_status`, `conditions`, `phase`, `admission`, `node_status`), carried out
by the sync loop, the status manager and the heartbeats. Runtimes are in `sampan.runtimes`.
"""
