"""The scheduler: which node each pod runs on.

What belongs here: the queue of pending pods, the table of nodes (numpy columns), the framework that runs plug-ins over
it, the plug-ins (one file each in `plugins/`), preemption, and the shell that binds. It sees `api` and `machinery`
only. Nothing of it is imported before a scheduler runs: numpy is loaded here and nowhere else. docs/scheduler.md has
the architecture.
"""
