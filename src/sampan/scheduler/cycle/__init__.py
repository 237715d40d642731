"""The scheduling and binding cycle of a pod (compare `pkg/scheduler/schedule_one.go` and `schedule_one_podgroup.go`).

`scheduling_cycle` selects a node for one pod, `pod_group_cycle` for all pods of a group; `binding_cycle` binds it;
`failure_handler` requeues pods that could not be scheduled and executes preemption. `decision_recorder` and
`pod_status` publish the outcome. The extension points themselves run in `framework`.
"""
