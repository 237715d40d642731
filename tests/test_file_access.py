"""What nodes and snapshots do with files whose names pods, images, volumes and archives choose.

Such a name must never become a part of a path that the operating system resolves: `..` and links would lead out of the
directory, and deep trees exceed paths and recursion. It is resolved from an open directory (`runtimes.safe_paths`,
`host.linux.directory_trees`). This test finds calls that resolve joined paths or recurse, and knows those whose
names are chosen by Sampan itself, with the reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGES = ("kubelet", "runtimes", "controllers/storage", "cluster/snapshot")
RECURSIVE = {
    "os": {"walk", "fwalk", "makedirs", "removedirs", "renames"},
    "shutil": {"rmtree", "copytree", "move"},
    "glob": {"glob", "iglob"},
}
PATH_METHODS = frozenset(
    {
        *("chmod", "exists", "hardlink_to", "is_dir", "is_file", "is_symlink", "iterdir", "lstat", "mkdir", "open"),
        *("read_bytes", "read_text", "rename", "replace", "resolve", "rmdir", "stat", "symlink_to", "touch", "unlink"),
        *("write_bytes", "write_text"),
    }
)

LAYOUT = "the directory is one of Sampan's own layout, and its names are UIDs, DNS labels or constants"
KERNEL = "the files are those of the kernel, in /proc or /sys"
DIGEST = "the name is a digest that has been checked"
MACHINE = "the files are those of the machine, which its administrator owns"
DESCRIPTOR = "the path names an open descriptor"

ALLOWED = {
    ("kubelet/agent/certificate_manager.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/agent/image_pull_records.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/agent/real_pod_lifecycle.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/agent/real_pod_lifecycle.py", "os.makedirs"): LAYOUT,
    ("kubelet/agent/shutdown/logind.py", "mkdir(parents)"): MACHINE,
    ("kubelet/cgroups.py", "mkdir(parents)"): KERNEL,
    ("kubelet/cgroups.py", "os.walk"): KERNEL,
    ("kubelet/cgroups.py", "joined.exists"): KERNEL,
    ("kubelet/cgroups.py", "joined.read_text"): KERNEL,
    ("kubelet/cgroups.py", "joined.write_text"): KERNEL,
    ("kubelet/container_config/builder.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/devices/manager.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/plugin_registry/registry.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/plugin_registry/socket_server.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/server/logs.py", "joined.resolve"): "the path is compared with the directory after links are resolved",
    ("kubelet/stats/collector.py", "joined.read_text"): KERNEL,
    ("kubelet/logs/rotation.py", "joined.unlink"): "the names are entries of the directory",
    ("kubelet/volumes/atomic.py", "joined.unlink"): "the name is an entry of the directory",
    ("kubelet/volumes/csi/plugin.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/volumes/ownership.py", "os.chmod"): DESCRIPTOR,
    ("kubelet/volumes/plugins/empty_dir.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/volumes/plugins/host_path.py", "mkdir(parents)"): "a hostPath is a path of the machine by definition",
    ("kubelet/volumes/plugins/iscsi.py", "mkdir(parents)"): "portals and names with slashes are refused",
    ("kubelet/volumes/plugins/local.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/volumes/plugins/nfs.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/volumes/subpaths.py", "mkdir(parents)"): LAYOUT,
    ("kubelet/volumes/subpaths.py", "os.readlink"): DESCRIPTOR,
    ("kubelet/volumes/volume_host.py", "joined.is_dir"): LAYOUT,
    ("runtimes/cri/runtime.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/docker/logs.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/docker/runtime.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/images/layers.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/images/layers.py", "joined.read_text"): DIGEST,
    ("runtimes/images/layers.py", "joined.unlink"): DIGEST,
    ("runtimes/images/layers.py", "os.setxattr"): DESCRIPTOR,
    ("runtimes/images/layers.py", "os.utime"): DESCRIPTOR,
    ("runtimes/images/mounts.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/images/store.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/images/supply.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/kernel.py", "joined.write_text"): KERNEL,
    ("runtimes/kernel.py", "os.open"): KERNEL,
    ("runtimes/monitor/client.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/monitor/logs.py", "os.makedirs"): LAYOUT,
    ("runtimes/monitor/__main__.py", "os.open"): LAYOUT,
    ("runtimes/monitored.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/oci/cgroups.py", "joined.is_dir"): KERNEL,
    ("runtimes/oci/cgroups.py", "os.walk"): KERNEL,
    ("runtimes/oci/pause.py", "joined.read_text"): KERNEL,
    ("runtimes/oci/pause.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/oci/sandbox.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/oci/sandbox.py", "joined.touch"): LAYOUT,
    ("runtimes/process.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/process.py", "joined.read_text"): KERNEL,
    ("runtimes/records.py", "mkdir(parents)"): LAYOUT,
    ("runtimes/records.py", "joined.read_bytes"): LAYOUT,
    ("runtimes/safe_paths.py", "os.open"): DESCRIPTOR,
    ("runtimes/usage.py", "joined.read_text"): KERNEL,
    ("cluster/snapshot/data_copy.py", "mkdir(parents)"): LAYOUT,
}
MODULES_OF_THE_MACHINE = {"runtimes/images/host.py": MACHINE}
"""Modules in which every path is one of the machine."""


def find_calls(code: str) -> Iterator[str]:
    """Yield a description of each call that recurses through a directory or resolves a joined path."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and (text := describe(node)):
            yield text


def describe(call: ast.Call) -> str:
    owner, name = call.func, ""
    if isinstance(call.func, ast.Attribute):
        owner, name = call.func.value, call.func.attr
    elif isinstance(call.func, ast.Name):
        owner, name = ast.Name("builtins"), call.func.id
    module = owner.id if isinstance(owner, ast.Name) else ""
    keywords = {keyword.arg or "" for keyword in call.keywords}
    if name in RECURSIVE.get(module, ()):
        return f"{module}.{name}"
    if name == "rglob" or (name == "mkdir" and "parents" in keywords):
        return "rglob" if name == "rglob" else "mkdir(parents)"
    if name in PATH_METHODS and is_joined(owner):
        return f"joined.{name}"
    is_of_system = module in ("os", "shutil") or (module == "builtins" and name == "open")
    if is_of_system and any(map(is_joined, call.args)) and not any(word.endswith("dir_fd") for word in keywords):
        return f"{module}.{name}"
    return ""


def is_joined(node: ast.AST) -> bool:
    """Whether the expression joins a path with a name that is not a constant."""
    match node:
        case ast.BinOp(op=ast.Div()):
            return not is_constant(node.right) or is_joined(node.left)
        case ast.JoinedStr():
            text = "".join(str(value.value) for value in node.values if isinstance(value, ast.Constant))
            return "/" in text and len(node.values) > 1
        case ast.Call(func=ast.Attribute(attr="joinpath" | "with_name")):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="path"), attr="join")):
            return True
        case ast.Call(func=ast.Name(id="Path")):
            return len(node.args) > 1 or any(map(is_joined, node.args))
    return False


def is_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.strip("_").isupper())


def test_untrusted_names_are_resolved_from_open_directories(repository: Path) -> None:
    source = repository / "src/sampan"
    modules = sorted(module for package in PACKAGES for module in (source / package).rglob("*.py"))
    names = {str(module.relative_to(source)): module for module in modules}
    used = {
        (name, call)
        for name, module in names.items()
        if name not in MODULES_OF_THE_MACHINE
        for call in find_calls(module.read_text())
    }
    assert used - ALLOWED.keys() == set(), "resolve the names from an open directory, or say who chooses them"
    assert ALLOWED.keys() - used == set(), "these exceptions are not needed any more"


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        ("(volume / path).mkdir(parents=True)", ["mkdir(parents)"]),
        ("(volume / path).unlink()", ["joined.unlink"]),
        ("(volume / _DATA / path).read_text()", ["joined.read_text"]),
        ("(volume / path / 'file').read_text()", ["joined.read_text"]),
        ("(volume / _DATA).read_text()", []),
        ("Path(f'{volume}/{path}').stat()", ["joined.stat"]),
        ("Path(volume, path).stat()", ["joined.stat"]),
        ("volume.joinpath(path).exists()", ["joined.exists"]),
        ("os.open(volume / path, 0)", ["os.open"]),
        ("os.stat(os.path.join(volume, path))", ["os.stat"]),
        ("os.open(path, 0, dir_fd=volume)", []),
        ("open(volume / path)", ["builtins.open"]),
        ("shutil.rmtree(volume)", ["shutil.rmtree"]),
        ("os.walk(volume)", ["os.walk"]),
        ("volume.rglob('*')", ["rglob"]),
    ],
)
def test_calls_are_found(code: str, calls: list[str]) -> None:
    assert list(find_calls(code)) == calls
