"""The scheduler, which assigns a node to each pending pod (compare `pkg/scheduler` and `cmd/kube-scheduler`).

The package contains the scheduling queue, the node table (numpy columns), the framework that runs plug-ins over it, the
plug-ins (one file each in `plugins/`), preemption and the binding cycle. It may import `api` and `machinery` only.
Nothing in it is imported before a scheduler runs, because numpy is loaded here and nowhere else. docs/scheduler.md
describes the architecture.
"""
