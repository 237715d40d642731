"""The scheduler, which assigns a node to each pending pod (compare `pkg/scheduler` and `cmd/kube-scheduler`).

`scheduler` is the composition root and the loop; `event_handlers` feed the `cache` (node table, pods) and the
`scheduling_queue` from informers; `cycle` schedules and binds a pod; `framework` runs the `plugins`, one file each,
which share code in `volumes` and `devices`. `config` reads settings, `extenders` calls HTTP extenders, `explain`
answers `sampan why`. The package may import `api` and `machinery` only. Nothing in it is imported before a scheduler
runs, because numpy is loaded here and nowhere else. docs/scheduler.md describes the architecture.
"""
