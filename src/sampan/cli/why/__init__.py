"""`sampan why`: explain why a pod is pending or where it is bound, and what it waits for.

The explanation comes from the scheduler in the process of the API server, or on its own port. If no scheduler is
reachable, one is created here that reads the cluster through the API and binds nothing; it has the default profile,
and does not know earlier decisions. `explanation_text` formats the explanation as tables, and `workload_pods` finds
the pods of a workload. What a bound pod lacks and what disrupted it is computed by `sampan.diagnosis`. Responses are
untyped values, as in `sampan kubectl`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec

from sampan.cli.kubectl import open_session
from sampan.cli.session_reader import SessionReader
from sampan.cli.why import explanation_text
from sampan.cli.why.workload_pods import pods_of, problem_conditions
from sampan.diagnosis.disruptions import EVENT_REASONS, DisruptionSource
from sampan.diagnosis.missing_parts import is_healthy, is_placed, list_missing_parts, state_of
from sampan.diagnosis.pod_explanation import explain_pod, is_schedulable, read_events
from sampan.kubectl.client.resource_types import ResourceTypes
from sampan.kubectl.client.session import Session
from sampan.kubectl.command_line.global_options import connection_options
from sampan.kubectl.errors import ServerError
from sampan.kubectl.objects.manifests import ManifestObject, read_manifests
from sampan.kubectl.objects.targets import targets
from sampan.kubectl.printers.objects import as_json
from sampan.kubectl.printers.table import table_lines
from sampan.machinery.cli_errors import CliError
from sampan.machinery.client.access import Access

_LIMIT, _WIDE_LIMIT = 200, 1000
_DISRUPTIONS = tuple(f"{reason}:" for reason in EVENT_REASONS)


@click.command("why")
@click.argument("words", nargs=-1, metavar="[KIND/NAME]")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="F",
    help="YAML file with pods that do not exist yet: explains where they would be scheduled.",
)
@click.option("-n", "--namespace", default="", metavar="NS", help="Namespace of the pod.")
@click.option(
    "-o",
    "--output",
    default="",
    metavar="FORM",
    help="Output format: wide shows every plugin and node, json prints everything.",
)
@click.option(
    "--scheduler",
    default="",
    metavar="URL",
    help="Address of the scheduler's own HTTPS port, used with the bearer token instead of the API server.",
)
@connection_options
def command(words: tuple[str, ...], files: tuple[str, ...], output: str, scheduler: str, **options: Any) -> None:
    """Explain why a pod is pending, why it runs on its node, or why it was evicted or preempted.

    For a pod that does not exist any more it shows what removed it, as long as events and records are kept.

    \b
    Examples:
      sampan why pod/NAME
      sampan why deployment/NAME
      sampan why -f pod.yaml
    """
    if output not in ("", "wide", "json"):
        raise CliError(f"-o: there is no {output!r}; supported: wide, json")
    if bool(words) == bool(files):
        raise CliError("want either KIND/NAME or -f FILE")
    explainer = PodExplainer(open_session(options), output, scheduler)
    if files:
        explainer.explain_manifests(read_manifests(files, action="explain"))
    else:
        explainer.explain_existing(words)


class PodExplainer:
    def __init__(self, session: Session, output: str, scheduler: str) -> None:
        self._session, self._output, self._scheduler = session, output, scheduler
        self._reader = SessionReader(session)
        self._disruptions = DisruptionSource(self._reader)
        self._count = 0

    # -- existing objects --------------------------------------------------------------------------------------------

    def explain_existing(self, words: Sequence[str]) -> None:
        words = ("pod", *words) if len(words) == 1 and "/" not in words[0] else words
        for target in targets(ResourceTypes(self._session), words):
            if not target.names:
                raise CliError(f"{target.kind.plural}: want the name of one, as in {target.kind.singular}/NAME")
            is_pod = target.kind.plural == "pods" and not target.kind.group
            for name in target.names:
                try:
                    obj = self._session.get(target.kind.object(self._session.namespace, name))
                except ServerError as error:
                    if not (is_pod and error.is_not_found and self._explain_deleted(name)):
                        raise
                    continue
                if is_pod:
                    self._pod(obj)
                else:
                    self._members(obj, f"{target.kind.qualified}/{name}")

    def _explain_deleted(self, name: str) -> bool:
        """Print why a pod that does not exist any more was removed. Return False if there is no trace of it."""
        lines = asyncio.run(self._disruptions.explain_deleted(self._session.namespace, name))
        if not lines:
            return False
        full_name = f"{self._session.namespace}/{name}"
        if self._output == "json":
            click.echo(as_json({"pod": full_name, "state": "deleted", "lacks": [], "disruption": lines}))
            return True
        self._start_section()
        click.echo(f"pod {full_name} does not exist any more")
        _echo_details(lines)
        return True

    def _members(self, obj: Mapping[str, Any], name: str) -> None:
        """Print one line for each pod of a workload, and the explanation for the first one that is not healthy."""
        pods = sorted(pods_of(self._session, obj), key=lambda pod: str(pod["metadata"]["name"]))
        if self._output == "json":
            for pod in pods:
                self._pod(pod)
            return
        click.echo(f"{name}: {len(pods)} pods" if pods else f"{name}: there are no pods")
        _echo_details(
            [
                *problem_conditions(obj),
                *([] if pods else list_missing_parts(_NOBODY, asyncio.run(read_events(self._reader, obj)))),
            ]
        )
        namespace, own_name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        if namespace:
            _echo_details(asyncio.run(self._disruptions.explain_replaced_pods(namespace, own_name, pods)))
        rows = [[_name(pod), state_of(pod), pod["spec"].get("nodeName", ""), _first_missing(pod)] for pod in pods]
        for line in table_lines([["POD", "STATE", "NODE", "LACKS"], *rows]) if rows else ():
            click.echo(line.rstrip())
        ill = next((pod for pod in pods if not is_healthy(pod)), None)
        if ill is not None:
            click.echo("")
            self._pod(ill)

    def _pod(self, pod: Mapping[str, Any]) -> None:
        explanation = asyncio.run(explain_pod(self._reader, pod))
        lacks = [line for line in explanation.lacks if not line.startswith(_DISRUPTIONS)]
        has_other_problem = bool(lacks) and is_placed(pod) and not is_healthy(pod) and not self._output
        scheduling = self._fetch(pod, is_there=True) if is_schedulable(pod) and not has_other_problem else None
        if self._output == "json":
            click.echo(as_json(explanation.value(scheduling)))
            return
        self._start_section()
        node_text = f" on {pod['spec']['nodeName']}" if is_placed(pod) else ": no node yet"
        click.echo(f"pod {explanation.pod} is {explanation.state}{node_text}")
        _echo_details(explanation.disruption)
        _echo_details(lacks)
        self._print(scheduling)

    # -- objects that do not exist yet -------------------------------------------------------------------------------

    def explain_manifests(self, manifests: Iterable[ManifestObject]) -> None:
        """Explain the manifests that have pods; others, such as services, are skipped."""
        without = []
        for manifest in manifests:
            pod = _pod_in(manifest)
            if pod is None:
                without.append(f"{manifest.source}: {manifest.kind} {manifest.name} has no pods to explain")
            else:
                self._explain_manifest(manifest, pod)
        if without and not self._count:
            raise CliError(without[0])
        for line in without:
            click.echo(f"({line})", err=True)

    def _explain_manifest(self, manifest: ManifestObject, requested: dict[str, Any]) -> None:
        pod = self._dry_run_create(requested, manifest.namespace or self._session.namespace)
        explanation = self._fetch(pod, is_there=False)
        name = f"{pod['metadata']['namespace']}/{manifest.name}"
        if self._output == "json":
            self._count += 1
            click.echo(as_json({"pod": name, "state": "not created", "lacks": [], "scheduling": explanation}))
            return
        self._start_section()
        click.echo(f"{manifest.kind.lower()} {name} from {manifest.source}, if it were created now")
        self._print(explanation)

    def _dry_run_create(self, pod: dict[str, Any], namespace: str) -> dict[str, Any]:
        """Return the pod as the API server would create it, with defaults, priority and tolerations, through a dry
        run."""
        metadata = dict(pod.get("metadata") or {})
        name = metadata.pop("name", "") or "pod"
        body = {**pod, "metadata": {**metadata, "namespace": namespace, "generateName": f"{name}-"}}
        try:
            created: dict[str, Any] = self._session.send(
                "POST", f"/api/v1/namespaces/{namespace}/pods", {"dryRun": "All"}, body=body
            )
        except ServerError as error:
            if error.error.code != 403:
                raise
            click.echo(f"(the API server would reject it: {error.error.message})", err=True)
            created = body | {"metadata": body["metadata"] | {"name": name, "uid": "none"}}
        return created

    # -- internals ---------------------------------------------------------------------------------------------------

    def _fetch(self, pod: Mapping[str, Any], *, is_there: bool) -> Any:
        limit = _LIMIT if self._output != "wide" else _WIDE_LIMIT
        return fetch_explanation(self._session, pod, is_there=is_there, scheduler=self._scheduler, limit=limit)

    def _print(self, explanation: Any) -> None:
        for line in explanation_text.lines(explanation, is_wide=self._output == "wide") if explanation else ():
            click.echo(line.rstrip())

    def _start_section(self) -> None:
        if self._count:
            click.echo("\n---\n")
        self._count += 1


_NOBODY: Mapping[str, Any] = {"metadata": {}}


def _echo_details(lines: Iterable[str]) -> None:
    for text in lines:
        for line in explanation_text.wrap(text, indent="  "):
            click.echo(line)


def _name(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _first_missing(pod: Mapping[str, Any]) -> str:
    lacks = list_missing_parts(pod)
    return lacks[0] if lacks else ("" if is_placed(pod) else "a node")


def _pod_in(manifest: ManifestObject) -> dict[str, Any] | None:
    """Return a Pod, or the pod of a workload's template; None for a kind without pods."""
    if manifest.kind == "Pod":
        return manifest.value
    spec = manifest.value.get("spec") or {}
    if manifest.kind == "CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    template = spec.get("template")
    if not template:
        return None
    metadata = {**(template.get("metadata") or {}), "name": manifest.name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec") or {}}


WHY = "/debug/scheduler/why"


def fetch_explanation(session: Session, pod: Mapping[str, Any], *, is_there: bool, scheduler: str, limit: int) -> Any:
    """Return the explanation for an existing pod, or for one that does not exist yet."""
    server = _open_scheduler_session(session, scheduler) if scheduler else session
    try:
        return _ask_scheduler(server, pod, is_there, limit)
    except ServerError as error:
        if scheduler or error.error.code not in (403, 404, 503):
            raise
    click.echo("(no scheduler is reachable; simulated from the objects of the API server)", err=True)
    return _simulate(session.access, pod, limit)


def _ask_scheduler(server: Session, pod: Mapping[str, Any], is_there: bool, limit: int) -> Any:
    query = {"limit": str(limit)}
    if not is_there:
        return server.send("POST", WHY, query, body=pod)
    metadata = pod["metadata"]
    return server.get(WHY, query | {"namespace": metadata["namespace"], "name": metadata["name"]})


def _open_scheduler_session(session: Session, url: str) -> Session:
    """Return a session with the port of a scheduler as the same user. The scheduler has the token reviewed by the API
    server; its self-signed certificate is not verified."""
    access = Access(server=url, is_insecure=True, token=session.access.token, token_file=session.access.token_file)
    scheduler_session = Session(access, session.namespace)
    click.get_current_context().call_on_close(scheduler_session.close)
    return scheduler_session


def _simulate(access: Access, pod: Mapping[str, Any], limit: int) -> Any:
    return asyncio.run(_simulate_async(access, pod, limit))


async def _simulate_async(access: Access, value: Mapping[str, Any], limit: int) -> Any:
    from sampan.api.codec import json
    from sampan.api.types.core_v1 import Pod
    from sampan.host.clock import RealClock
    from sampan.machinery.client import Client
    from sampan.machinery.client.http import HttpTransport
    from sampan.scheduler.explain.explain import explain
    from sampan.scheduler.scheduler import make_scheduler

    clock = RealClock()
    async with HttpTransport(access) as transport:
        scheduler = make_scheduler(client=Client(transport=transport, clock=clock, component="sampan-why"), clock=clock)
        async with scheduler.synced():
            explanation = await explain(scheduler, json.from_value(value, Pod), now=clock.now(), max_nodes=limit)
    return msgspec.json.decode(msgspec.json.encode(explanation))
