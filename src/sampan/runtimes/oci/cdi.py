"""Devices of the Container Device Interface (CDI): read the vendors' specification files, and apply the edits that they
prescribe to the OCI specification of a container."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sampan.machinery.config_file import decode_config
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.safe_paths import read_file

log = logging.getLogger(__name__)

DIRECTORIES = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Directories with CDI specifications in ascending order of priority."""
_HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_MAX_SPEC_BYTES = 4 << 20
"""The maximum size of a specification file."""

Edits = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CdiDevice:
    """A device, with its own edits and those that its file prescribes for all of its devices."""

    file: Path
    rank: int
    shared: Edits
    own: Edits


def collect_edits(names: Sequence[str], directories: Sequence[Path] = DIRECTORIES) -> list[Edits]:
    """Return the edits for the named devices, with the edits common to a file only once. Raise RuntimeFailure if a
    device is unknown, or defined by several files of the same priority."""
    devices = _read_devices(directories)
    missing = [name for name in names if len(devices.get(name, ())) != 1]
    if missing:
        message = f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)}"
        raise RuntimeFailure("CreateContainerError", message)
    changes: list[Edits] = []
    seen_files: set[Path] = set()
    for [device] in (devices[name] for name in dict.fromkeys(names)):
        if device.file not in seen_files:
            seen_files.add(device.file)
            changes.append(device.shared)
        changes.append(device.own)
    return changes


def _read_devices(directories: Sequence[Path]) -> dict[str, list[CdiDevice]]:
    devices: dict[str, list[CdiDevice]] = {}
    for rank, directory in enumerate(directories):
        for file in _files(directory):
            for name, device in _read(file, rank):
                others = devices.setdefault(name, [])
                others[:] = [other for other in others if other.rank >= rank]
                others.append(device)
    return devices


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(path for path in directory.iterdir() if path.is_file())
    except OSError:
        return []


def _read(file: Path, rank: int) -> Iterator[tuple[str, CdiDevice]]:
    """Yield the devices of a file. An invalid file is logged and ignored."""
    try:
        content = _decode_file(file)
        for device in content.get("devices") or ():
            shared, own = content.get("containerEdits") or {}, device.get("containerEdits") or {}
            yield f"{content['kind']}={device['name']}", CdiDevice(file=file, rank=rank, shared=shared, own=own)
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        log.warning("ignoring invalid CDI specification %s: %s", file, error)


def _decode_file(file: Path) -> dict[str, Any]:
    if file.suffix not in (".json", ".yaml", ".yml"):
        return {}
    content = read_file(file.resolve(), _MAX_SPEC_BYTES)
    if file.suffix == ".json":
        document: dict[str, Any] = msgspec.json.decode(content)
    else:
        document = decode_config(content, is_strict=False) or {}
    return document


def apply_edits(spec: Mapping[str, Any], changes: Sequence[Edits]) -> dict[str, Any]:
    """Return the specification with the edits applied. Missing attributes of a device are read from the device node of
    the host. Raise RuntimeFailure if the edits are malformed."""
    try:
        return _apply_edits(spec, changes)
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        message = f"CDI device injection failed: invalid container edits of a device: {error!r}"
        raise RuntimeFailure("CreateContainerError", message) from None


def _apply_edits(spec: Mapping[str, Any], changes: Sequence[Edits]) -> dict[str, Any]:
    result: dict[str, Any] = {**spec, "process": dict(spec["process"]), "linux": dict(spec["linux"])}
    linux, process = result["linux"], result["process"]
    linux["resources"] = dict(linux["resources"])
    for change in changes:
        process["env"] = _merge_env(process["env"], change.get("env") or ())
        user = process["user"]
        nodes = [_node(node, user) for node in change.get("deviceNodes") or ()]
        paths = {node["path"] for node, _ in nodes}
        linux["devices"] = [*(old for old in linux["devices"] if old["path"] not in paths), *(n for n, _ in nodes)]
        rules = [rule for _, rule in nodes if rule["type"] in ("b", "c")]  # device cgroup rules do not apply to pipes
        linux["resources"]["devices"] = [*linux["resources"]["devices"], *rules]
        result["mounts"] = _merge_mounts(result["mounts"], change.get("mounts") or ())
        result["hooks"] = _merge_hooks(result.get("hooks") or {}, change.get("hooks") or ())
        if groups := [group for group in change.get("additionalGids") or () if group]:
            process["user"] = {**user, "additionalGids": [*dict.fromkeys([*user["additionalGids"], *groups])]}
    return result


def _merge_env(old: Sequence[str], new: Sequence[str]) -> list[str]:
    names = {variable.partition("=")[0] for variable in new}
    return [*(variable for variable in old if variable.partition("=")[0] not in names), *new]


def _merge_mounts(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    mounts = [
        {
            "destination": mount["containerPath"],
            "type": mount.get("type") or "bind",
            "source": mount["hostPath"],
            "options": list(mount.get("options") or ["rbind", "ro"]),
        }
        for mount in new
    ]
    destinations = {mount["destination"] for mount in mounts}
    return [*(dict(mount) for mount in old if mount["destination"] not in destinations), *mounts]


def _merge_hooks(old: Mapping[str, Any], new: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    merged = {kind: list(hooks) for kind, hooks in old.items()}
    for entry in new:
        if entry.get("hookName") in _HOOKS:
            hook = {name: entry[name] for name in ("path", "args", "env", "timeout") if entry.get(name)}
            merged.setdefault(entry["hookName"], []).append(hook)
    return merged


def _node(edit: Mapping[str, Any], user: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the device node and the cgroup rule that allows access to it. The device belongs to the user of the
    container unless the edit sets an owner."""
    path = edit["path"]
    kind, major, minor = edit.get("type") or "", edit.get("major"), edit.get("minor")
    mode = edit.get("fileMode")
    if not kind or (major is None and kind != "p"):
        try:
            status = os.stat(edit.get("hostPath") or path)
        except OSError as error:
            message = f"CDI device injection failed: failed to stat CDI host device {path!r}: {error.strerror}"
            raise RuntimeFailure("CreateContainerError", message) from None
        kind = "b" if stat.S_ISBLK(status.st_mode) else "c" if stat.S_ISCHR(status.st_mode) else "p"
        major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
        mode = stat.S_IMODE(status.st_mode) if mode is None else mode
    node = {"path": path, "type": kind, "major": major or 0, "minor": minor or 0}
    node |= {key: user[key] if edit.get(key) is None else edit[key] for key in ("uid", "gid")}
    node["fileMode"] = mode if mode is not None else 0o666
    access = edit.get("permissions") or "rwm"
    return node, {"allow": True, "type": kind, "major": node["major"], "minor": node["minor"], "access": access}
