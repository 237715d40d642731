"""Configurations of sandboxes, saved on disk so that a restarted kubelet can create more containers in them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from sampan.runtimes.config import SandboxConfig
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.records import as_path


class SandboxConfigs:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, SandboxConfig] = {}

    def keep(self, config: SandboxConfig) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(config.uid)
        scratch = path.with_suffix(".new")
        scratch.write_bytes(msgspec.json.encode(config, enc_hook=str))
        os.replace(scratch, path)
        self._known[config.uid] = config

    def get(self, uid: str) -> SandboxConfig:
        config = self._known.get(uid)
        if config is None:
            try:
                config = msgspec.json.decode(self._path(uid).read_bytes(), type=SandboxConfig, dec_hook=as_path)
            except (OSError, msgspec.MsgspecError):
                raise RuntimeFailure("CreateContainerError", "the pod has no sandbox that is known") from None
            self._known[uid] = config
        return config

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)
        self._path(uid).unlink(missing_ok=True)

    def _path(self, uid: str) -> Path:
        return self._directory / f"{uid}.json"
