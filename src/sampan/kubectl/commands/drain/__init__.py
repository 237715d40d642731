"""`kubectl drain`: cordon nodes and evict their pods."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.client.session import Session
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import arguments, bool_flag, changed_flags, duration_flag, int_flag, string_flag
from sampan.kubectl.command_line.shared_flags import chunk_size_flag, dry_run_flag, dry_run_strategy, selector_flag
from sampan.kubectl.commands.cordon import report_node, select_nodes, set_schedulable
from sampan.kubectl.commands.drain.filters import DrainedPods, PodFilters, filter_pods, is_deletion_overdue
from sampan.kubectl.errors import KubectlError, PlainError, ServerError, error_text
from sampan.kubectl.objects.targets import ResourceInfo, list_pages

_RETRY_S = 5
_POLL_S = 1.0
Pod = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainOptions:
    words: tuple[str, ...] = arguments()
    force: bool = bool_flag("--force", help="Also delete pods without a controller.")
    ignore_daemonsets: bool = bool_flag("--ignore-daemonsets", help="Leave the pods of DaemonSets on the node.")
    delete_emptydir_data: bool = bool_flag(
        "--delete-emptydir-data", help="Also delete pods with emptyDir volumes and their data."
    )
    grace_period: int = int_flag(
        "--grace-period",
        default=-1,
        metavar="SECONDS",
        help="Time for graceful termination; a negative time stands for that of the pod.",
    )
    timeout_s: float = duration_flag("--timeout", default_s=0.0, metavar="TIME", help="Time limit; 0 for none.")
    pod_selector: str = string_flag("--pod-selector", metavar="SELECTOR", help="Label selector of the pods to evict.")
    disable_eviction: bool = bool_flag("--disable-eviction", help="Delete pods, in spite of pod disruption budgets.")
    skip_wait_for_delete_timeout: int = int_flag(
        "--skip-wait-for-delete-timeout",
        default=0,
        metavar="SECONDS",
        help="Do not wait for pods that have been in deletion for longer; 0 waits for all.",
    )
    chunk_size: int = chunk_size_flag()
    dry_run: str = dry_run_flag()
    selector: str = selector_flag("Label selector of the nodes.")
    changed_flags: frozenset[str] = changed_flags()


@KubectlCommand.define("drain", DrainOptions)
def command(factory: Factory, options: DrainOptions) -> None:
    """Drain nodes: cordon them and evict their pods."""
    dry_run = dry_run_strategy(options.dry_run)
    if options.pod_selector:
        _check_selector(options.pod_selector)
    nodes = select_nodes(factory, "drain", options, options.chunk_size)
    set_schedulable(factory, nodes, is_cordoned=True, dry_run=dry_run)
    drain = NodeDrainer(factory.session, factory, options, dry_run)
    failures: dict[str, NodeDrainError] = {}
    for node in nodes:
        try:
            drain.run(node)
        except NodeDrainError as error:
            text = f'error: unable to drain node "{node.name}" due to error: {error.message}, continuing command...'
            click.echo(text, err=True)
            failures[node.name] = error
            continue
        report_node(node, "drained", dry_run)
    if failures:
        click.echo("There are pending nodes to be drained:", err=True)
        for name in failures:
            click.echo(f" {name}", err=True)
        errors = list(failures.values())
        raise errors[0] if len(errors) == 1 else PlainError("\n".join(error.message for error in errors))


def _check_selector(text: str) -> None:
    from sampan.api.selectors import labels
    from sampan.api.selectors.label_grammar import SelectorError

    try:
        labels.parse(text)
    except SelectorError:
        raise KubectlError("--pod-selector=<pod_selector> must be a valid label selector") from None


class NodeDrainError(PlainError):
    """The errors of one node. The message joins them in one line; `text`, which the user sees, has one line for each
    error."""

    def __init__(self, errors: Sequence[click.ClickException]) -> None:
        texts = list(dict.fromkeys(map(_plain_message, errors)))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        self._lines = [error_text(error) for error in errors]

    @property
    def text(self) -> str:
        return "\n".join(self._lines)


class NodeDrainer:
    """Evicts or deletes the pods of a node."""

    def __init__(self, session: Session, factory: Factory, options: DrainOptions, dry_run: str) -> None:
        self._session, self._factory, self._options, self._dry_run = session, factory, options, dry_run
        self._filters = PodFilters(
            force=options.force,
            ignore_daemonsets=options.ignore_daemonsets,
            delete_emptydir_data=options.delete_emptydir_data,
            skip_wait_for_delete_timeout_s=options.skip_wait_for_delete_timeout,
        )

    def run(self, node: ResourceInfo) -> None:
        try:
            drained = self._pods(node.name)
        except ServerError as error:
            raise NodeDrainError([error]) from None
        if drained.error_texts:
            raise NodeDrainError([KubectlError(text) for text in drained.error_texts])
        if drained.warnings:
            click.echo(f"Warning: {drained.warning_text}", err=True)
        if self._dry_run == "client":
            for pod in drained.pods:
                click.echo(f"evicting pod {_name(pod)} (dry run)")
            return
        try:
            self._remove(drained.pods)
        except click.ClickException as error:
            failure = error if isinstance(error, NodeDrainError) else NodeDrainError([error])
            self._report_pending(node.name, failure)
            raise failure from None

    def _report_pending(self, node: str, error: NodeDrainError) -> None:
        pending = self._pods(node)
        if pending.pods:
            text = f'There are pending pods in node "{node}" when an error occurred: {error.message}'
            click.echo(text, err=True)
            for pod in pending.pods:
                click.echo(f"pod/{pod['metadata']['name']}", err=True)

    def _pods(self, node: str) -> DrainedPods:
        kind = self._factory.kinds.find_by_kind("v1", "Pod")
        query = {"fieldSelector": f"spec.nodeName={node}", "labelSelector": self._options.pod_selector}
        query |= {"limit": str(self._options.chunk_size)} if self._options.chunk_size > 0 else {}
        query = {key: text for key, text in query.items() if text}
        pods = [pod for page in list_pages(self._session, kind, "", query) for pod in page.get("items") or ()]
        return filter_pods(pods, self._filters, now=time.time(), daemon_set_error=self._daemon_set_error)

    def _daemon_set_error(self, namespace: str, name: str) -> tuple[str, bool] | None:
        try:
            self._session.get(f"/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}")
        except ServerError as error:
            return error.error.message, error.is_not_found
        return None

    def _remove(self, pods: Sequence[Pod]) -> None:
        if not pods:
            return
        timeout_s = self._options.timeout_s
        deadline = time.monotonic() + timeout_s if timeout_s else float("inf")
        if not self._options.disable_eviction and self._supports_eviction():
            self._evict_all(pods, deadline)
        else:
            self._delete_all(pods, deadline)

    def _supports_eviction(self) -> bool:
        resources = self._session.get("/api/v1").get("resources") or ()
        return any(entry["name"] == "pods/eviction" and entry.get("group") for entry in resources)

    def _delete_options(self) -> dict[str, Any]:
        grace_period = self._options.grace_period
        options: dict[str, Any] = {"gracePeriodSeconds": grace_period} if grace_period >= 0 else {}
        return options | ({"dryRun": ["All"]} if self._dry_run == "server" else {})

    # -- evictions -----------------------------------------------------------------------------------------------------

    def _evict_all(self, pods: Sequence[Pod], deadline: float) -> None:
        """Evict all pods concurrently, because a pod may wait for its disruption budget while other pods can be
        evicted."""
        errors: list[click.ClickException] = []

        def evict(pod: Pod) -> None:
            session = self._session.open_another()
            try:
                self._evict(session, pod, deadline)
            except click.ClickException as error:
                errors.append(error)
            finally:
                session.close()

        threads = [threading.Thread(target=evict, args=(pod,), daemon=True) for pod in pods]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise NodeDrainError(errors)

    def _evict(self, session: Session, pod: Pod, deadline: float) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        subject = f'pods/"{name}" -n "{namespace}"'
        while True:
            suffix = " (server dry run)" if self._dry_run == "server" else ""
            click.echo(f"evicting pod {namespace}/{name}{suffix}")
            if time.monotonic() > deadline:
                limit = _duration_text(self._options.timeout_s)
                raise KubectlError(f"error when evicting {subject}: global timeout reached: {limit}")
            try:
                self._send_eviction(session, namespace, name)
            except ServerError as error:
                if error.is_not_found:
                    return
                if not self._may_retry(error, pod):
                    raise KubectlError(f"error when evicting {subject}: {error.error.message}") from None
                if error.error.reason == "Forbidden" and pod["metadata"].get("deletionTimestamp"):
                    break
                kind = subject if error.error.code == 429 else f'pod "{name}" from terminating namespace "{namespace}"'
                click.echo(
                    f"error when evicting {kind} (will retry after {_RETRY_S}s): {error.error.message}", err=True
                )
                time.sleep(_RETRY_S)
                pod = self._refetch_pod(session, pod)
                continue
            break
        if self._dry_run == "server":
            return
        try:
            self._wait(session, [pod], deadline, verb="evicted")
        except click.ClickException as error:
            pod_text = f'pod "{name}" in namespace "{namespace}"'
            raise KubectlError(f"error when waiting for {pod_text} to terminate: {_plain_message(error)}") from None

    def _send_eviction(self, session: Session, namespace: str, name: str) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": self._delete_options(),
        }
        session.send("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body=body)

    @staticmethod
    def _may_retry(error: ServerError, pod: Pod) -> bool:
        is_terminating = any(cause.get("reason") == "NamespaceTerminating" for cause in error.error.causes)
        return error.error.code == 429 or (error.error.reason == "Forbidden" and is_terminating)

    @staticmethod
    def _refetch_pod(session: Session, pod: Pod) -> Pod:
        try:
            fresh: Pod = session.get(_path(pod))
        except ServerError:
            return pod
        return fresh

    # -- deletions -----------------------------------------------------------------------------------------------------

    def _delete_all(self, pods: Sequence[Pod], deadline: float) -> None:
        for pod in pods:
            try:
                self._session.send("DELETE", _path(pod), body=self._delete_options())
            except ServerError as error:
                if not error.is_not_found:
                    raise
        if self._dry_run != "server":
            self._wait(self._session, list(pods), deadline, verb="deleted")

    def _wait(self, session: Session, pods: list[Pod], deadline: float, *, verb: str) -> None:
        """Wait until each pod is gone or another pod has taken its name, and report it."""
        while True:
            pods = [pod for pod in pods if not self._report_if_gone(session, pod, verb)]
            if not pods:
                return
            if time.monotonic() > deadline:
                raise KubectlError("context deadline exceeded")
            time.sleep(min(_POLL_S, max(0.0, deadline - time.monotonic())))

    def _report_if_gone(self, session: Session, pod: Pod, verb: str) -> bool:
        """Print a line and return True if the pod is gone, or if its deletion is not waited for any longer."""
        name = pod["metadata"]["name"]
        try:
            current = session.get(_path(pod))
        except ServerError as error:
            if not error.is_not_found:
                raise
            current = None
        if current is None or current["metadata"].get("uid") != pod["metadata"].get("uid"):
            click.echo(f"pod/{name} {verb}")
            return True
        limit_s = self._filters.skip_wait_for_delete_timeout_s
        if is_deletion_overdue(current, limit_s, time.time()):
            click.echo(f'pod "{name}" has DeletionTimestamp older than {limit_s} seconds, skipping')
            return True
        return False


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _name(pod: Pod) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _duration_text(seconds: float) -> str:
    from sampan.api.values import durations

    return durations.format_duration(int(seconds * durations.SECOND))


def _plain_message(error: click.ClickException) -> str:
    return error.error.message if isinstance(error, ServerError) else error.message
