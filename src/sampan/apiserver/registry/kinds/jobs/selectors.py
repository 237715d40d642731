"""The selector and labels that the server generates from the job's UID, so that no two jobs share pods."""

from sampan.api.faults import FieldError
from sampan.api.types.batch_v1 import Job
from sampan.api.types.meta_v1 import LabelSelector
from sampan.apiserver.registry.podspec.formats import FieldErrors
from sampan.apiserver.registry.workloads import selection

UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_OLD_UID_LABEL, _OLD_NAME_LABEL = "controller-uid", "job-name"


def generate_selector(job: Job) -> None:
    """Add the generated selector and labels. Existing values are kept, and rejected by validation if they differ."""
    labels, meta = job.spec.template.metadata.labels, job.metadata
    for key in (_OLD_NAME_LABEL, NAME_LABEL):
        labels.setdefault(key, meta.name)
    for key in (_OLD_UID_LABEL, UID_LABEL):
        labels.setdefault(key, meta.uid)
    if job.spec.selector is None:
        job.spec.selector = LabelSelector()
    job.spec.selector.matchLabels.setdefault(UID_LABEL, meta.uid)


def validate_generated_selector(job: Job, *, has_new_labels: bool) -> FieldErrors:
    """Yield errors unless selector and labels are as generated. Old jobs lack the labels with a prefix."""
    selector, meta = job.spec.selector, job.metadata
    if job.spec.manualSelector or selector is None:
        return
    labels = {_OLD_UID_LABEL: meta.uid, _OLD_NAME_LABEL: meta.name}
    if has_new_labels:
        labels |= {UID_LABEL: meta.uid, NAME_LABEL: meta.name}
    for key, value in labels.items():
        yield from _validate_label(job.spec.template.metadata.labels, key, value)
    selected = selection.parsed(selector)
    if selected is not None and not selected.matches(labels):
        yield FieldError.invalid("spec.selector", selector, "`selector` not auto-generated")


def _validate_label(labels: dict[str, str], key: str, value: str) -> FieldErrors:
    at, text = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
    if key not in labels:
        yield FieldError.required(at, text)
    elif labels[key] != value:
        yield FieldError.invalid(at, labels, text)
