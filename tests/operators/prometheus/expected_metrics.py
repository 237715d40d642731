"""The metrics that the rules and dashboards of kube-prometheus use (`metrics.yaml`), and what a text of metrics has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_FILE = Path(__file__).parent / "metrics.yaml"
_LABEL = re.compile(r'([a-zA-Z_]\w*)="(?:[^"\\]|\\.)*"')
_SUFFIXES = ("_bucket", "_count", "_sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedMetric:
    job: str
    name: str
    type: str
    labels: tuple[str, ...]
    absent: str = ""
    """Why a cluster has no series of the metric; empty if it has."""

    def expression(self) -> str:
        """Return an expression of the kind that rules and dashboards have."""
        job, path = ("kubelet", "/metrics/cadvisor") if self.job == "cadvisor" else (self.job, "")
        selector = f'job="{job}"' + (f',metrics_path="{path}"' if path else "")
        if self.type != "histogram":
            return f"count by ({', '.join(self.labels)}) ({self.name}{{{selector}}})"
        labels = ", ".join(("le", *self.labels))
        return f"histogram_quantile(0.99, sum by ({labels}) (rate({self.name}_bucket{{{selector}}}[1m])))"


def read_expected_metrics() -> list[ExpectedMetric]:
    jobs: Mapping[str, Mapping[str, Any]] = yaml.safe_load(_FILE.read_text())
    return [
        ExpectedMetric(job=job, name=name, type=row["type"], labels=tuple(row["labels"]), absent=row.get("absent", ""))
        for job, rows in jobs.items()
        for name, row in rows.items()
    ]


@dataclass(slots=True)
class ServedMetric:
    type: str = ""
    labels: set[str] = field(default_factory=set)
    """The labels that any of its samples has."""


def parse_text(text: str) -> dict[str, ServedMetric]:
    """Return the metrics in a text that have a sample, by name."""
    types = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE "))
    metrics: dict[str, ServedMetric] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name = line.partition("{")[0].partition(" ")[0]
            base = next((name.removesuffix(end) for end in _SUFFIXES if name.removesuffix(end) in types), name)
            metric = metrics.setdefault(base, ServedMetric(types.get(base, "")))
            metric.labels.update(_LABEL.findall(line))
    return metrics


def missing_parts(metric: ExpectedMetric, served: Mapping[str, ServedMetric]) -> Iterator[str]:
    """Yield what a served text lacks of a metric."""
    known = served.get(metric.name)
    if known is None:
        if not metric.absent:
            yield f"{metric.job} {metric.name}: no series"
        return
    if known.type != metric.type:
        yield f"{metric.job} {metric.name}: {known.type} instead of {metric.type}"
    for label in metric.labels:
        if label not in known.labels:
            yield f"{metric.job} {metric.name}: no label {label}"
