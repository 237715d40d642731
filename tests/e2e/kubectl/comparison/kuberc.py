"""Preferences: default flags, aliases and the policy for credential plugins, in both versions of the file."""

from tests.e2e.kubectl.comparison import Area, Line

_HEAD = "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\n"
_CREDENTIALS = (
    '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"not-a-token"}}'
)


def _lines_with_kuberc(file: str, *lines: str) -> list[Line]:
    return [Line(line, environment={"KUBERC": file}) for line in lines]


AREA = Area(
    setup="""
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {color: blue}
""",
    files={
        "token.json": _CREDENTIALS,
        "first.yaml": """apiVersion: kubectl.config.k8s.io/v1alpha1
kind: Preference
overrides:
- command: get
  flags: [{name: output, default: name}]
aliases:
- {name: getcm, command: get, prependArgs: [cm], flags: [{name: show-labels, default: "true"}]}
""",
        "second.yaml": _HEAD
        + """defaults:
- {command: get, options: [{name: output, default: jsonpath={.metadata.name}}]}
- {command: create configmap, options: [{name: dry-run, default: client}, {name: output, default: name}]}
aliases:
- name: runmap
  command: create configmap
  appendArgs: [--from-literal=a=1]
  options: [{name: dry-run, default: client}]
- {name: getpods, command: get pods, prependArgs: [cm]}
- {name: nothing, command: nosuch}
""",
        "several.yaml": "kind: Other\n---\n# comment\n---\n" + _HEAD + "defaults: []\naliases: []\n",
        "unknown.yaml": _HEAD + "colour: red\ndefaults:\n- {command: get, options: [], extra: 1}\n",
        "invalid.yaml": _HEAD + "defaults: 5\n",
        "empty.yaml": "# nothing\n",
        "aliasname.yaml": _HEAD + "aliases: [{name: get-cm, command: get}]\n",
        "dashes.yaml": _HEAD + "defaults: [{command: get, options: [{name: --output, default: name}]}]\n",
        "twice.yaml": _HEAD + "aliases: [{name: a, command: get}, {name: a, command: get}]\n",
        "badflag.yaml": _HEAD + "defaults: [{command: get, options: [{name: nosuch, default: a}]}]\n",
        "badvalue.yaml": _HEAD + "defaults: [{command: get, options: [{name: chunk-size, default: a}]}]\n",
        "badcommand.yaml": _HEAD + "defaults: [{command: nosuch, options: []}]\n",
        "overridden.yaml": _HEAD
        + "aliases: [{name: getit, command: get}]\ndefaults: [{command: getit, options: []}]\n",
        "denied.yaml": _HEAD + "credentialPluginPolicy: DenyAll\n",
        "allowed.yaml": _HEAD
        + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: true}, {name: cat}]\n",
        "allowcat.yaml": _HEAD + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: cat}]\n",
        "allowother.yaml": _HEAD + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{name: tac}]\n",
        "allownone.yaml": _HEAD + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: []\n",
        "allowunset.yaml": _HEAD + "credentialPluginPolicy: Allowlist\n",
        "allowempty.yaml": _HEAD + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{}]\n",
        "allowpath.yaml": _HEAD
        + "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: /bin//cat}]\n",
        "uselesslist.yaml": _HEAD + "credentialPluginPolicy: AllowAll\ncredentialPluginAllowlist: [{command: cat}]\n",
        "badpolicy.yaml": _HEAD + "credentialPluginPolicy: Sometimes\n",
    },
    lines=[
        *_lines_with_kuberc(
            "first.yaml", "get cm settings", "get cm settings -o json", "get cm settings -oyaml", "getcm settings"
        ),
        *_lines_with_kuberc(
            "first.yaml", "getcm settings --show-labels=false", "-n {ns} getcm settings", "nosuch", "version --client"
        ),
        *_lines_with_kuberc(
            "second.yaml", "get cm settings", "create configmap x", "create cm y", "runmap z", "getpods settings"
        ),
        *_lines_with_kuberc("second.yaml", "nothing", "get --help=false cm settings"),
        *_lines_with_kuberc("several.yaml", "get cm settings -o name"),
        *_lines_with_kuberc("unknown.yaml", "get cm settings -o name"),
        *_lines_with_kuberc("invalid.yaml", "get cm settings -o name"),
        *_lines_with_kuberc("empty.yaml", "get cm settings -o name"),
        *_lines_with_kuberc("nosuch.yaml", "get cm settings -o name"),
        *_lines_with_kuberc("aliasname.yaml", "get cm settings -o name"),
        *_lines_with_kuberc("dashes.yaml", "get cm settings -o name"),
        *_lines_with_kuberc("twice.yaml", "get cm settings -o name"),
        *_lines_with_kuberc("badflag.yaml", "get cm settings", "describe cm settings"),
        *_lines_with_kuberc("badvalue.yaml", "get cm settings", "get cm settings -o name --chunk-size=1"),
        *_lines_with_kuberc("badcommand.yaml", "get cm settings -o name"),
        *_lines_with_kuberc("overridden.yaml", "getit cm"),
        *_lines_with_kuberc("off", "get cm settings -o name", "get cm settings --kuberc=second.yaml", "kuberc view"),
        "get cm settings --kuberc=second.yaml",
        "get cm settings --kuberc second.yaml",
        "get cm settings --kuberc=nosuch.yaml",
        "get cm settings --kuberc=",
        Line("get cm settings -o name", environment={"KUBECTL_KUBERC": "false", "KUBERC": "invalid.yaml"}),
        "config set-credentials plug --exec-command=cat --exec-arg=token.json "
        "--exec-api-version=client.authentication.k8s.io/v1 --exec-interactive-mode=Never",
        "get cm settings --user=plug",
        *_lines_with_kuberc("denied.yaml", "get cm settings --user=plug", "get cm settings -o name"),
        *_lines_with_kuberc("allowed.yaml", "get cm settings --user=plug"),
        *_lines_with_kuberc("allowcat.yaml", "get cm settings --user=plug"),
        *_lines_with_kuberc("allowother.yaml", "get cm settings --user=plug"),
        *_lines_with_kuberc("allownone.yaml", "get cm settings"),
        *_lines_with_kuberc("allowunset.yaml", "get cm settings"),
        *_lines_with_kuberc("allowempty.yaml", "get cm settings"),
        *_lines_with_kuberc("allowpath.yaml", "get cm settings"),
        *_lines_with_kuberc("uselesslist.yaml", "get cm settings"),
        *_lines_with_kuberc("badpolicy.yaml", "get cm settings"),
        *_lines_with_kuberc("second.yaml", "kuberc view", "kuberc view -o json"),
        *_lines_with_kuberc("nosuch.yaml", "kuberc view"),
        "kuberc view --kuberc nosuch.yaml",
        Line("kuberc view", stdin="y\n"),
        "kuberc view",
        "kuberc set",
        "kuberc set --section=other",
        "kuberc set --section=defaults",
        "kuberc set --section=aliases --command=get",
        "kuberc set --section=defaults --command=get --name=x",
        "kuberc set --section=defaults --command=get --appendarg=x",
        "kuberc set --section=defaults --command=get --option=output",
        "kuberc set --section=defaults --command=get --option=output=wide",
        "kuberc set --section=defaults --command=get --option=output=name",
        "kuberc set --section=defaults --command=get --option=output=name --overwrite",
        "kuberc set --section=aliases --name=getcm --command=get --prependarg=cm --option=output=name",
        "getcm settings",
        "kuberc set --section=credentialplugin",
        "kuberc set --section=credentialplugin --policy=Never",
        "kuberc set --section=credentialplugin --policy=Allowlist",
        "kuberc set --section=credentialplugin --policy=DenyAll --allowlist-entry=command=cat",
        "kuberc set --section=credentialplugin --policy=Allowlist --allowlist-entry=cat",
        "kuberc set --section=credentialplugin --policy=Allowlist --allowlist-entry=command=cat",
        "kuberc view",
        "kuberc nosuch",
    ],
)
