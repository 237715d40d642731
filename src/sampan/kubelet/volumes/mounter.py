"""Mounts on the node, by system calls or, where those do not suffice, by programs of the machine.

Without the privilege to mount, `can_mount` is False: plain directories replace tmpfs, and there are no bind mounts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sampan.host.linux import programs
from sampan.host.linux.directory_trees import remove_tree
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.runtimes import kernel

_NOFOLLOW = 8
_MOUNTINFO = Path("/proc/self/mountinfo")
_ESCAPES = {" ": r"\040", "\t": r"\011", "\n": r"\012", "\\": r"\134"}


class CommandError(VolumeOperationError):
    """A program of the machine has failed."""

    def __init__(self, program: str, code: int, output: str) -> None:
        super().__init__(f"{program}: exit status {code}: {output}")
        self.code, self.output = code, output


class Mounter:
    def __init__(self, *, can_mount: bool | None = None) -> None:
        self.can_mount = _may_mount() if can_mount is None else can_mount
        self._options = "noswap"
        """Mount option of tmpfs, cleared once the kernel rejects it."""

    def is_mounted(self, path: Path) -> bool:
        """Whether the path itself is a mount point."""
        if not self.can_mount:
            return False
        mount_point = _escape(path)
        lines = (line for line in _MOUNTINFO.read_text().splitlines() if f" {mount_point} " in line)
        return any(line.split(" ", 5)[4] == mount_point for line in lines)

    def kind(self, path: Path) -> str:
        """Return the type of the topmost file system mounted at the path, or an empty string."""
        for line in reversed(_MOUNTINFO.read_text().splitlines()):
            mount_fields, _, source_fields = line.partition(" - ")
            if mount_fields.split(" ")[4] == _escape(path):
                return source_fields.split(" ")[0]
        return ""

    def mount_tmpfs(self, path: Path, size: int = 0) -> None:
        options = [f"size={size}"] if size else []
        if self._options:
            try:
                return kernel.mount("tmpfs", path, "tmpfs", 0, ",".join([*options, self._options]))
            except OSError:
                self._options = ""
        kernel.mount("tmpfs", path, "tmpfs", 0, ",".join(options))

    def mount_huge_pages(self, path: Path, page_size: str) -> None:
        kernel.mount("nodev", path, "hugetlbfs", 0, f"pagesize={page_size}")

    def bind(self, source: Path | str, target: Path, *, is_read_only: bool = False) -> None:
        kernel.mount(source, target, flags=kernel.MS_BIND)
        if is_read_only:
            kernel.mount(source, target, flags=kernel.MS_BIND | kernel.MS_REMOUNT | kernel.MS_RDONLY)

    def unmount(self, path: Path) -> None:
        """Unmount everything that is mounted at the path."""
        if self.can_mount:
            kernel.unmount(path, _NOFOLLOW)

    def unmount_and_remove(self, path: Path) -> None:
        """Unmount the path, and remove the file or the directory, which must be empty."""
        self.unmount(path)
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    def remove(self, path: Path) -> None:
        """Unmount everything at or below the path, and remove it with its content."""
        if self.can_mount:
            for mount_point in kernel.mounts_below(path):
                kernel.unmount(mount_point, _NOFOLLOW)
        if path.is_symlink() or path.is_file():
            path.unlink(missing_ok=True)
        elif path.exists():
            remove_tree(path)

    async def mount_with_program(self, source: str, target: Path, kind: str, options: Sequence[str]) -> None:
        """Mount with mount(8), which supports mount helpers and their options."""
        flags = ["-o", ",".join(options)] if options else []
        arguments = ["-t", kind, *flags, source, str(target)]
        try:
            # The source may be chosen by a pod and begin with a dash, so it must not be parsed as an option.
            await run_program("mount", "-t", kind, *flags, "--", source, str(target))
        except CommandError as error:
            details = f"Mounting command: mount\nMounting arguments: {' '.join(arguments)}\nOutput: {error.output}\n"
            raise VolumeOperationError(f"mount failed: exit status {error.code}\n{details}") from None

    async def format_and_mount(self, device: str, target: Path, kind: str, options: Sequence[str]) -> None:
        """Mount the device, after creating a file system if it has none."""
        if not await _has_file_system(device):
            if "ro" in options:
                raise VolumeOperationError(
                    f"cannot mount unformatted disk {device} as we are manipulating it in read-only mode"
                )
            more = ("-F", "-m0") if kind.startswith("ext") else ()
            await run_program(f"mkfs.{kind}", *more, device)
        await self.mount_with_program(device, target, kind, [*options, "defaults"])


async def _has_file_system(device: str) -> bool:
    result = await _start("blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device)
    return result.code == 0


async def run_program(*command: str) -> str:
    """Return the output of the program. Raise CommandError if it fails."""
    result = await _start(*command)
    output = f"{result.output}{result.errors}".strip()
    if result.code:
        raise CommandError(command[0], result.code, output)
    return output


async def _start(*command: str) -> programs.ProgramResult:
    try:
        return await programs.run(*command)
    except FileNotFoundError:
        raise VolumeOperationError(f'exec: "{command[0]}": executable file not found in $PATH') from None


def _may_mount() -> bool:
    return os.geteuid() == 0 and _MOUNTINFO.exists()


def _escape(path: Path) -> str:
    return "".join(_ESCAPES.get(letter, letter) for letter in str(path))


async def expand_file_system(disk: str, kind: str, mounted_at: Path) -> None:
    """Expand the file system while it is mounted. Raise VolumeOperationError if that fails."""
    command = build_expansion_command(disk, kind, mounted_at)
    if not command:
        raise VolumeOperationError(
            f"resize of format {kind} is not supported for device {disk} mounted at {mounted_at}"
        )
    try:
        await run_program(*command)
    except VolumeOperationError as error:
        raise VolumeOperationError(f"resize of device {disk} failed: {error.text}") from None


def build_expansion_command(disk: str, kind: str, mounted_at: Path) -> list[str]:
    """Return the command that expands a file system, empty if its type is not supported. Pure."""
    if kind in ("ext2", "ext3", "ext4"):
        return ["resize2fs", disk]
    if kind == "xfs":
        return ["xfs_growfs", "-d", str(mounted_at)]
    if kind == "btrfs":
        return ["btrfs", "filesystem", "resize", "max", str(mounted_at)]
    return []
