"""Runs tasks with the KubernetesExecutor of Airflow, as its scheduler does, and prints how each of them ended as JSON.

It runs in the Python of Airflow. The arguments are the tasks, each with the exit code of its pod, or `deleted`.
"""

import json
import sys

from airflow.models.taskinstancekey import TaskInstanceKey
from airflow.providers.cncf.kubernetes.executors.kubernetes_executor import KubernetesExecutor
from kubernetes.client import models

from tests.eventually import wait_until

_TIMEOUT_S = 300
_DAG, _RUN = "ships", "run-1"


def main(tasks: dict[str, str]) -> dict[str, str]:
    executor = KubernetesExecutor()
    executor.job_id = 7
    executor.start()
    try:
        for task, end in tasks.items():
            add_task(executor, task, end)
        return wait_for_states(executor, tasks)
    finally:
        executor.end()


def add_task(executor: KubernetesExecutor, task: str, end: str) -> None:
    name = "hollow.sampan.dev/run" if end == "deleted" else "hollow.sampan.dev/exit-code"
    annotations = {name: "forever" if end == "deleted" else end}
    key = TaskInstanceKey(_DAG, task, _RUN, 1, -1)
    pod = models.V1Pod(metadata=models.V1ObjectMeta(annotations=annotations))
    executor.running.add(key)
    command = ["airflow", "tasks", "run", _DAG, task, _RUN]
    executor.execute_async(key, command, executor_config={"pod_override": pod})


def wait_for_states(executor: KubernetesExecutor, tasks: dict[str, str]) -> dict[str, str]:
    """Return the final states; the executor reports None for a pod that succeeded, as its task reports the rest."""
    states: dict[str, str] = {}

    def are_known() -> bool:
        executor.sync()
        for key, (state, _) in executor.get_event_buffer().items():
            if state != "queued":
                states[key.task_id] = str(state and state.value)
        for task in (task for task, end in tasks.items() if end == "deleted" and task not in states):
            delete_running_pod(executor, task)
        return len(states) == len(tasks)

    wait_until(are_known, timeout_s=_TIMEOUT_S, describe=lambda: str(states))
    return states


def delete_running_pod(executor: KubernetesExecutor, task: str) -> None:
    for pod in executor.kube_client.list_namespaced_pod("default", label_selector=f"task_id={task}").items:
        if pod.status.phase == "Running" and not pod.metadata.deletion_timestamp:
            executor.kube_client.delete_namespaced_pod(pod.metadata.name, "default")


if __name__ == "__main__":
    print(json.dumps(main(dict(argument.split("=") for argument in sys.argv[1:]))))
