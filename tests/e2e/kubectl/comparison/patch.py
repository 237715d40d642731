"""`kubectl patch` and `kubectl replace`."""

from tests.e2e.kubectl.comparison import Area
from tests.e2e.kubectl.comparison_files import FILES

AREA = Area(
    files=FILES,
    lines=[
        "create -f cm.yaml",
        "create -f dep.yaml",
        'patch cm cm -p \'{"data":{"a":"c"}}\'',
        'patch cm cm -p \'{"data":{"a":"c"}}\'',
        'patch cm cm --type=json -p \'[{"op":"remove","path":"/data/a"}]\'',
        'patch cm cm --type=json -p \'[{"op":"remove","path":"/data/a"}]\'',
        "patch cm cm --type=merge --patch-file=patch.yaml",
        "patch cm cm --patch-file=/no",
        "patch cm cm",
        "patch cm cm -p x --type=foo",
        "patch cm cm -p '{'",
        "patch cm nope -p '{}'",
        'patch cm cm -p \'{"data":{"q":"r"}}\' --dry-run=client -o yaml',
        'patch cm cm -p \'{"data":{"q":"r"}}\' --dry-run=server',
        'patch -f cm.yaml --local -p \'{"data":{"q":"r"}}\' -o yaml',
        'patch deployment dep --subresource=scale --type=merge -p \'{"spec":{"replicas":1}}\'',
        'patch -f dep.yaml -p \'{"spec":{"replicas":3}}\' -o name',
        "patch cm cm -p '{\"data\":[]}'",
        "patch",
        "replace -f cm.yaml",
        "replace -f cm2.yaml --dry-run=client",
        "replace -f cm2.yaml --dry-run=server",
        "replace -f pod.yaml",
        "replace",
        "replace -f cm2.yaml --force",
        "replace -f cm2.yaml --grace-period=1",
        "replace -f cm2.yaml --timeout=1s",
        "replace --force -f pod.yaml",
        "replace -f cm.yaml --save-config -o yaml",
        "replace -f bad.yaml",
        "replace --force --dry-run=client -f cm.yaml",
        "replace --raw /api/v1/namespaces/{ns}/configmaps/cm -f cm.yaml",
    ],
)
