"""Errors of connections and credentials, kubeconfig rules, and the classic global flags."""

from tests.e2e.kubectl.comparison import Area, Line

_TOKEN = '{"apiVersion":"client.authentication.k8s.io/%s","kind":"ExecCredential","status":{%s}}'


def _kubeconfig(user: str, cluster: str = 'server: "https://127.0.0.1:1"') -> str:
    return f"""apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u, namespace: there}}}}]
clusters: [{{name: c, cluster: {{{cluster}}}}}]
users: [{{name: u, user: {{{user}}}}}]
"""


def _lines_with_kubeconfig(file: str, *lines: str) -> list[Line]:
    return [Line(line, environment={"KUBECONFIG": file}) for line in lines]


def _exec(command: str, *args: str, version: str = "v1") -> str:
    words = ", ".join(args)
    return _kubeconfig(
        f"exec: {{apiVersion: client.authentication.k8s.io/{version}, command: {command}, args: [{words}], "
        f"interactiveMode: Never}}"
    )


AREA = Area(
    files={
        "refused.yaml": _kubeconfig("token: a"),
        "plain.yaml": _kubeconfig("token: a", 'server: "http://127.0.0.1:1"'),
        "noscheme.yaml": _kubeconfig("token: a", 'server: "127.0.0.1:1"'),
        "noserver.yaml": _kubeconfig("token: a", "insecure-skip-tls-verify: true"),
        "badca.yaml": _kubeconfig("token: a", 'server: "https://127.0.0.1:1", certificate-authority: nosuch.crt'),
        "cadata.yaml": _kubeconfig("token: a", 'server: "https://127.0.0.1:1", certificate-authority-data: "!!"'),
        "cacontent.yaml": _kubeconfig("token: a", 'server: "https://127.0.0.1:1", certificate-authority-data: YWJj'),
        "both.yaml": _kubeconfig(
            "token: a",
            'server: "https://127.0.0.1:1", insecure-skip-tls-verify: true, certificate-authority-data: YWJj',
        ),
        "nocert.yaml": _kubeconfig("client-certificate: nosuch.crt, client-key: nosuch.key"),
        "onlycert.yaml": _kubeconfig("client-certificate-data: YWJj"),
        "badcert.yaml": _kubeconfig("client-certificate-data: YWJj, client-key-data: YWJj"),
        "notoken.yaml": _kubeconfig("tokenFile: nosuch"),
        "basic.yaml": _kubeconfig("username: a, password: b"),
        "two.yaml": _kubeconfig("username: a, password: b, token: c"),
        "provider.yaml": _kubeconfig("auth-provider: {name: gcp}"),
        "oidc.yaml": _kubeconfig("auth-provider: {name: oidc}"),
        "oidc2.yaml": _kubeconfig(
            "auth-provider: {name: oidc, config: {idp-issuer-url: 'https://127.0.0.1:1', client-id: a, id-token: x}}"
        ),
        "oidc3.yaml": _kubeconfig(
            "auth-provider: {name: oidc, config: {idp-issuer-url: 'https://127.0.0.1:1', client-id: a}}"
        ),
        "token.json": _TOKEN % ("v1", '"token":"x"'),
        "beta.json": _TOKEN % ("v1beta1", '"token":"x"'),
        "empty.json": _TOKEN % ("v1", ""),
        "half.json": _TOKEN % ("v1", '"clientCertificateData":"x"'),
        "exec.yaml": _exec("cat", "token.json"),
        "exec-path.yaml": _exec("./nosuchplugin"),
        "exec-fails.yaml": _exec("'false'"),
        "exec-version.yaml": _exec("cat", "beta.json"),
        "exec-empty.yaml": _exec("cat", "empty.json"),
        "exec-half.yaml": _exec("cat", "half.json"),
        "exec-text.yaml": _exec("echo", "hello"),
        "exec-alpha.yaml": _exec("cat", "token.json", version="v1alpha1"),
        "exec-none.yaml": _kubeconfig("exec: {command: cat, interactiveMode: Never}"),
        "exec-mode.yaml": _kubeconfig("exec: {command: cat, apiVersion: client.authentication.k8s.io/v1}"),
        "exec-always.yaml": _kubeconfig(
            "exec: {command: cat, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}"
        ),
        "exec-nocommand.yaml": _kubeconfig(
            "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}"
        ),
        "text.yaml": "hello",
        "list.yaml": "[1, 2]",
        "syntax.yaml": "a: [",
        "kind.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
        "empty.yaml": "",
        "unknown.yaml": "apiVersion: v1\nkind: Config\nnonsense: 1\ncurrent-context: a\n",
        "nocluster.yaml": "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {}}]\n",
        "type.yaml": "apiVersion: v1\nkind: Config\ncurrent-context: 5\n",
        "users.yaml": "apiVersion: v1\nkind: Config\nusers: [{name: a, user: {token: 5}}]\n",
    },
    lines=[
        *_lines_with_kubeconfig(
            "refused.yaml", "get pods", "version", "api-resources", "apply -f token.json", "create cm a", "cluster-info"
        ),
        *_lines_with_kubeconfig(
            "refused.yaml", "delete pod a", "describe pod a", "logs a", "exec a -- ls", "wait --for=delete pod/a"
        ),
        *_lines_with_kubeconfig(
            "refused.yaml", "auth whoami", "auth can-i get pods", "top node", "explain pods", "api-versions", "events"
        ),
        *_lines_with_kubeconfig(
            "refused.yaml", "scale deploy a --replicas=1", "rollout status deploy/a", "label pod a b=c", "drain a"
        ),
        *_lines_with_kubeconfig(
            "refused.yaml", "port-forward a 80", "cp a:b c", "edit pod a", "patch pod a -p {}", "diff -f token.json"
        ),
        *_lines_with_kubeconfig("plain.yaml", "get pods"),
        *_lines_with_kubeconfig("noscheme.yaml", "get pods"),
        *_lines_with_kubeconfig("noserver.yaml", "get pods"),
        *_lines_with_kubeconfig("badca.yaml", "get pods"),
        *_lines_with_kubeconfig("cadata.yaml", "get pods"),
        *_lines_with_kubeconfig("cacontent.yaml", "get pods"),
        *_lines_with_kubeconfig("both.yaml", "get pods"),
        *_lines_with_kubeconfig("nocert.yaml", "get pods"),
        *_lines_with_kubeconfig("onlycert.yaml", "get pods"),
        *_lines_with_kubeconfig("badcert.yaml", "get pods"),
        *_lines_with_kubeconfig("notoken.yaml", "get pods"),
        *_lines_with_kubeconfig("basic.yaml", "get pods", "get pods --token=x"),
        *_lines_with_kubeconfig("two.yaml", "get pods"),
        *_lines_with_kubeconfig("provider.yaml", "get pods"),
        *_lines_with_kubeconfig("oidc.yaml", "get pods"),
        *_lines_with_kubeconfig("oidc2.yaml", "get pods"),
        *_lines_with_kubeconfig("oidc3.yaml", "get pods"),
        *_lines_with_kubeconfig("exec.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-path.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-fails.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-version.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-empty.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-half.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-text.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-alpha.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-none.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-mode.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-always.yaml", "get pods"),
        *_lines_with_kubeconfig("exec-nocommand.yaml", "get pods"),
        *_lines_with_kubeconfig("text.yaml", "get pods"),
        *_lines_with_kubeconfig("list.yaml", "get pods"),
        *_lines_with_kubeconfig("syntax.yaml", "get pods", "config view"),
        *_lines_with_kubeconfig("kind.yaml", "get pods"),
        *_lines_with_kubeconfig("empty.yaml", "get pods", "config view"),
        *_lines_with_kubeconfig("unknown.yaml", "get pods"),
        *_lines_with_kubeconfig("nocluster.yaml", "get pods"),
        *_lines_with_kubeconfig("type.yaml", "get pods"),
        *_lines_with_kubeconfig("users.yaml", "get pods"),
        *_lines_with_kubeconfig("nosuch.yaml:refused.yaml", "get pods", "config get-contexts"),
        *_lines_with_kubeconfig("refused.yaml:plain.yaml", "config view", "config view --minify"),
        *_lines_with_kubeconfig(
            "refused.yaml",
            "get pods --server=http://127.0.0.1:1",
            "get pods -s 127.0.0.1:1",
            "get pods -s nosuchhost:1",
        ),
        *_lines_with_kubeconfig(
            "refused.yaml", "get pods --server=''", "get pods --server=ftp://x", "get pods --server=http://:1"
        ),
        *_lines_with_kubeconfig("refused.yaml", "get pods --username=a --password=b", "get pods --request-timeout=1"),
        *_lines_with_kubeconfig(
            "refused.yaml", "get pods --certificate-authority=nosuch", "get pods --client-certificate=nosuch"
        ),
        *_lines_with_kubeconfig(
            "refused.yaml", "get pods --insecure-skip-tls-verify --certificate-authority=token.json"
        ),
        *_lines_with_kubeconfig(
            "refused.yaml", "get pods --tls-server-name=a", "get pods --as=a --as-uid=b", "get pods --as-uid=b"
        ),
        *_lines_with_kubeconfig(
            "refused.yaml", "get pods --match-server-version", "get pods --cache-dir={home}/c", "get pods --v=1"
        ),
        *_lines_with_kubeconfig(
            "refused.yaml", "get pods --vmodule=a=1", "get pods --vmodule=a", "get pods --v=a", "get pods --profile=x"
        ),
        *_lines_with_kubeconfig("refused.yaml", "get pods --warnings-as-errors"),
        *_lines_with_kubeconfig("refused.yaml", "get pods --disable-compression", "get pods --disable-compression=x"),
        "get cm --insecure-skip-tls-verify",
        "get cm -o name --tls-server-name=nosuch",
        "get cm --certificate-authority=token.json",
        "get cm --username=a --password=b",
        "get cm --token=x",
        "get cm --token=",
        "get cm -o name --as=system:admin",
        "get cm -o name --warnings-as-errors",
        "get componentstatuses -o name --warnings-as-errors",
        "get cm nosuch --warnings-as-errors",
        "get cm -o name --profile=none",
        "get cm -o name --profile=nosuch",
        "version --client",
    ],
    differences={"KUBECONFIG=refused.yaml create cm a": "the URL in the error is that of the first request"},
)
