"""The storage class of a volume or claim, and validation of the provisioner and parameters of classes."""

from collections.abc import Mapping

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import PersistentVolume, PersistentVolumeClaim
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.apiserver.registry.validation import FieldErrors, validate_qualified_name

OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
"""The annotation from before `spec.storageClassName`; it takes precedence over the field."""
OLD_CLASS_WARNING = 'deprecated since v1.8; use "storageClassName" attribute instead'
_DEFAULT_CLASS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def class_of(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    return obj.metadata.annotations.get(OLD_CLASS, obj.spec.storageClassName or "")


def names_class(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim specifies a storage class, including "" for none."""
    return OLD_CLASS in claim.metadata.annotations or claim.spec.storageClassName is not None


def is_default(meta: ObjectMeta) -> bool:
    """Whether a storage class is marked as the default."""
    return any(meta.annotations.get(key) == "true" for key in _DEFAULT_CLASS)


_ACCESS_MODE_ABBREVIATIONS = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def modes_in_short(modes: list[str]) -> str:
    return ",".join([short for mode, short in _ACCESS_MODE_ABBREVIATIONS.items() if mode in modes])


_MAX_PARAMETERS, _MAX_PARAMETERS_BYTES = 512, 256 * 1024


def validate_provisioner(name: str, path: str) -> FieldErrors:
    """Yield the errors of the name of a provisioner or driver, which is case-insensitive."""
    if not name:
        yield FieldError.required(path)
    else:
        yield from validate_qualified_name(name.lower(), path)


def validate_parameter(parameters: Mapping[str, str], path: str) -> FieldErrors:
    if len(parameters) > _MAX_PARAMETERS:
        yield FieldError.too_long(path, _MAX_PARAMETERS)
        return
    if "" in parameters:
        yield FieldError.invalid(path, "", "field can not be empty.")
    if sum(names.size(key) + names.size(value) for key, value in parameters.items()) > _MAX_PARAMETERS_BYTES:
        yield FieldError.too_long(path, _MAX_PARAMETERS_BYTES)
