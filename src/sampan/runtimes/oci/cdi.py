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

from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.safe_paths import read_file

log = logging.getLogger(__name__)

FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Directories with CDI specifications in ascending order of priority."""
_HOOKS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")
_MOST_BYTES = 4 << 20
"""The maximum size of a specification file."""

Edits = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A device, with its own edits and those that its file prescribes for all of its devices."""

    file: Path
    rank: int
    shared: Edits
    own: Edits


def edits(names: Sequence[str], folders: Sequence[Path] = FOLDERS) -> list[Edits]:
    """Return the edits for the named devices, with the edits common to a file only once. Raise RuntimeFailure if a
    device is unknown, or defined by several files of the same priority."""
    known = _known(folders)
    missing = [name for name in names if len(known.get(name, ())) != 1]
    if missing:
        told = f"CDI device injection failed: unresolvable CDI devices {', '.join(missing)}"
        raise RuntimeFailure("CreateContainerError", told)
    found: list[Edits] = []
    seen: set[Path] = set()
    for [device] in (known[name] for name in dict.fromkeys(names)):
        if device.file not in seen:
            seen.add(device.file)
            found.append(device.shared)
        found.append(device.own)
    return found


def _known(folders: Sequence[Path]) -> dict[str, list[Described]]:
    found: dict[str, list[Described]] = {}
    for rank, folder in enumerate(folders):
        for file in _files(folder):
            for name, device in _read(file, rank):
                others = found.setdefault(name, [])
                others[:] = [other for other in others if other.rank >= rank]
                others.append(device)
    return found


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if each.is_file())
    except OSError:
        return []


def _read(file: Path, rank: int) -> Iterator[tuple[str, Described]]:
    """Yield the devices of a file. An invalid file is logged and ignored."""
    try:
        content = _decoded(file)
        for device in content.get("devices") or ():
            shared, own = content.get("containerEdits") or {}, device.get("containerEdits") or {}
            yield f"{content['kind']}={device['name']}", Described(file=file, rank=rank, shared=shared, own=own)
    except (OSError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as fault:
        log.warning("ignoring invalid CDI specification %s: %s", file, fault)


def _decoded(file: Path) -> dict[str, Any]:
    if file.suffix not in (".json", ".yaml", ".yml"):
        return {}
    content = read_file(file.resolve(), _MOST_BYTES)
    if file.suffix == ".json":
        found: dict[str, Any] = msgspec.json.decode(content)
    else:
        import yaml

        try:
            found = yaml.safe_load(content) or {}
        except yaml.YAMLError as fault:
            raise ValueError(str(fault)) from None
    return found


def applied(spec: Mapping[str, Any], changes: Sequence[Edits]) -> dict[str, Any]:
    """Return the specification with the edits applied. Missing attributes of a device are read from the device node of
    the host. Raise RuntimeFailure if the edits are malformed."""
    try:
        return _applied(spec, changes)
    except (LookupError, AttributeError, TypeError, ValueError) as fault:
        told = f"CDI device injection failed: what a device brings cannot be read: {fault!r}"
        raise RuntimeFailure("CreateContainerError", told) from None


def _applied(spec: Mapping[str, Any], changes: Sequence[Edits]) -> dict[str, Any]:
    found: dict[str, Any] = {**spec, "process": dict(spec["process"]), "linux": dict(spec["linux"])}
    linux, process = found["linux"], found["process"]
    linux["resources"] = dict(linux["resources"])
    for each in changes:
        process["env"] = _with_env(process["env"], each.get("env") or ())
        user = process["user"]
        nodes = [_node(node, user) for node in each.get("deviceNodes") or ()]
        paths = {node["path"] for node, _ in nodes}
        linux["devices"] = [*(old for old in linux["devices"] if old["path"] not in paths), *(n for n, _ in nodes)]
        rules = [rule for _, rule in nodes if rule["type"] in ("b", "c")]  # device cgroup rules do not apply to pipes
        linux["resources"]["devices"] = [*linux["resources"]["devices"], *rules]
        found["mounts"] = _with_mounts(found["mounts"], each.get("mounts") or ())
        found["hooks"] = _with_hooks(found.get("hooks") or {}, each.get("hooks") or ())
        if groups := [group for group in each.get("additionalGids") or () if group]:
            process["user"] = {**user, "additionalGids": [*dict.fromkeys([*user["additionalGids"], *groups])]}
    return found


def _with_env(old: Sequence[str], new: Sequence[str]) -> list[str]:
    names = {each.partition("=")[0] for each in new}
    return [*(each for each in old if each.partition("=")[0] not in names), *new]


def _with_mounts(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    made = [
        {
            "destination": each["containerPath"],
            "type": each.get("type") or "bind",
            "source": each["hostPath"],
            "options": list(each.get("options") or ["rbind", "ro"]),
        }
        for each in new
    ]
    taken = {each["destination"] for each in made}
    return [*(dict(each) for each in old if each["destination"] not in taken), *made]


def _with_hooks(old: Mapping[str, Any], new: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found = {kind: list(hooks) for kind, hooks in old.items()}
    for each in new:
        if each.get("hookName") in _HOOKS:
            hook = {name: each[name] for name in ("path", "args", "env", "timeout") if each.get(name)}
            found.setdefault(each["hookName"], []).append(hook)
    return found


def _node(wanted: Mapping[str, Any], user: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the device node and the cgroup rule that allows access to it. The device belongs to the user of the
    container unless the edit sets an owner."""
    path = wanted["path"]
    kind, major, minor = wanted.get("type") or "", wanted.get("major"), wanted.get("minor")
    mode = wanted.get("fileMode")
    if not kind or (major is None and kind != "p"):
        try:
            about = os.stat(wanted.get("hostPath") or path)
        except OSError as fault:
            told = f"CDI device injection failed: failed to stat CDI host device {path!r}: {fault.strerror}"
            raise RuntimeFailure("CreateContainerError", told) from None
        kind = "b" if stat.S_ISBLK(about.st_mode) else "c" if stat.S_ISCHR(about.st_mode) else "p"
        major, minor = os.major(about.st_rdev), os.minor(about.st_rdev)
        mode = stat.S_IMODE(about.st_mode) if mode is None else mode
    node = {"path": path, "type": kind, "major": major or 0, "minor": minor or 0}
    node |= {key: user[key] if wanted.get(key) is None else wanted[key] for key in ("uid", "gid")}
    node["fileMode"] = mode if mode is not None else 0o666
    access = wanted.get("permissions") or "rwm"
    return node, {"allow": True, "type": kind, "major": node["major"], "minor": node["minor"], "access": access}


__all__ = ["FOLDERS", "applied", "edits"]
