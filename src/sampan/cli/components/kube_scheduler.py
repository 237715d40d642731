"""`sampan kube-scheduler`: the scheduler as a separate process, with the flags of the Kubernetes component."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from socket import gethostname
from typing import TYPE_CHECKING, Any

import click

from sampan.cli.components.component import Component, component_config, component_options, run_component
from sampan.cli.flags.feature_gates import GATES_FLAG, VERSION_FLAGS, effective_gates
from sampan.cli.flags.flag_table import add_flags
from sampan.cli.flags.scheduler import scheduler_options, scheduler_settings
from sampan.cli.flags.without_effect import ComponentCommand
from sampan.cli.local_cluster.server_process import set_up_logs
from sampan.cluster.scheduler_settings import SchedulerSettings, policy_of_map
from sampan.host.http import HttpResponse
from sampan.machinery import errors
from sampan.machinery.cli_errors import CliError
from sampan.machinery.telemetry.health import PING, HealthCheck

if TYPE_CHECKING:
    from sampan.api.types.core_v1 import Pod
    from sampan.scheduler.config import SchedulerConfig
    from sampan.scheduler.explain.explain_endpoint import ExplainEndpoint
    from sampan.scheduler.scheduler import Scheduler

NAME = "kube-scheduler"


@click.command(NAME, cls=ComponentCommand)
@scheduler_options("--config")
@add_flags((GATES_FLAG, *VERSION_FLAGS))
@component_options(10259)
def command(**options: Any) -> None:
    """Run the Kubernetes scheduler."""
    from sampan.scheduler.metrics import RESOURCES

    set_up_logs(options["verbosity"])
    settings, gates = scheduler_settings("--config", options), effective_gates(options)

    async def work(component: Component) -> None:
        from sampan.scheduler.config import SchedulerConfig
        from sampan.scheduler.explain.explain_endpoint import DECISIONS, WHY, ExplainEndpoint
        from sampan.scheduler.metrics import SchedulerMetrics
        from sampan.scheduler.plugins.registry import preload
        from sampan.scheduler.scheduler import make_scheduler

        await asyncio.to_thread(preload)
        scheduler = make_scheduler(
            client=component.client(NAME),
            clock=component.clock,
            config=replace(await _config(component, settings) or SchedulerConfig(), feature_gates=gates),
            metrics=SchedulerMetrics(component.metrics),
            host=gethostname(),
        )
        page = _page(ExplainEndpoint(lambda: scheduler, component.clock.now))
        component.pages.update({WHY: page, DECISIONS: page, RESOURCES: _resources(scheduler.living_pods)})
        component.checks["readyz"] = [
            HealthCheck("shutdown", PING.probe),
            HealthCheck("sched-handler-sync", partial(_probe_handlers, scheduler), is_transient=True),
        ]
        await scheduler.run()

    _take_from_file(options, settings)
    shown = {"kubescheduler.config.k8s.io": {"profiles": _names(settings)}}
    run_component(
        replace(component_config(NAME, options), feature_gates=gates),
        work,
        shown=shown,
        pages={RESOURCES: _resources(tuple)},
    )


async def _probe_handlers(scheduler: Scheduler) -> None:
    if scheduler.informers.list_unsynced():
        raise RuntimeError("handlers are not fully synchronized")


def _take_from_file(options: dict[str, Any], settings: SchedulerSettings) -> None:
    """Apply settings of the configuration file to flags that are not given on the command line."""
    context = click.get_current_context()
    flags_of_file = settings.config.flags if settings.config is not None else {}
    silent = [
        name for name in flags_of_file if context.get_parameter_source(name) is click.core.ParameterSource.DEFAULT
    ]
    options.update({name: flags_of_file[name] for name in silent})


async def _config(component: Component, settings: SchedulerSettings) -> SchedulerConfig | None:
    if settings.policy_map is None:
        return settings.config
    try:
        return await policy_of_map(component.client(NAME), settings.policy_map)
    except errors.ApiError as error:
        raise CliError(f"--policy-configmap: {error}") from None


def _page(endpoint: ExplainEndpoint) -> Any:
    async def page(method: str, path: str, query: Mapping[str, str], body: bytes) -> HttpResponse:
        response = await endpoint.handle(method, path, query, body)
        return HttpResponse(status=response.code, body=response.body, content_type=response.content_type)

    return page


def _resources(pods: Callable[[], Iterable[Pod]]) -> Any:
    """Return the handler of /metrics/resources. A scheduler that is not the leader reports no pods."""

    async def page(method: str, path: str, query: Mapping[str, str], body: bytes) -> HttpResponse:
        from sampan.machinery.telemetry.metrics import CONTENT_TYPE
        from sampan.scheduler.metrics import resource_text

        text = await resource_text(pods())
        return HttpResponse(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    return page


def _names(settings: SchedulerSettings) -> list[str]:
    if settings.config is None:
        return ["default-scheduler"]
    return [profile.scheduler_name for profile in settings.config.profiles]
