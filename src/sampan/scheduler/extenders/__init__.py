"""HTTP extenders, which take part in filtering, scoring, preemption and binding (compare `pkg/scheduler/extender.go`).

`extender_config` reads their configuration, `http_extender` calls one extender and `extender_chain` calls all of them
during a scheduling cycle.
"""
