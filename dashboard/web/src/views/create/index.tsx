/** Creates objects: with a form for the common kinds, or from YAML and files for all. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { access } from "../../app/access";
import { asApiError, type ApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import { namespace as currentNamespace } from "../../app/namespace";
import { apiVersion, discovery, objectHref, type Resource } from "../../app/resources";
import { href, navigate } from "../../app/router";
import { ActionButton, Empty, ErrorBox, Field, KubectlHint, Loading } from "../../components";
import type { ViewProps } from "..";
import { kubectl } from "../actions/kubectl";
import { send, type Write } from "../editor/apply";
import { ReviewDialog } from "../editor/ReviewDialog";
import { completionsAt } from "../editor/YamlEditor";
import { toYaml } from "../editor/yaml";
import { useDebounced, useLoad } from "../load";
import { useLiveObjects } from "../../app/stream";
import { useUnsaved } from "../../app/unsaved";
import { allPaths, initialValues, placeCauses, type FormValues } from "./fields";
import { FormFields } from "./FormFields";
import { buildManifest, type FormModel, modelOf, modelOfResource, MODELS } from "./models";
import { Manifests } from "./Manifests";
import "./create.css";

const t = catalog({
  title: ["Create", "创建"],
  yaml: ["YAML or files", "YAML 或文件"],
  kinds: ["What to create", "创建内容"],
  namespace: ["Namespace", "Namespace"],
  advanced: ["More settings", "更多设置"],
  preview: ["Manifest", "清单"],
  review: ["Review and create", "检查并创建"],
  edit: ["Edit as YAML", "以 YAML 编辑"],
  unknown: ["This cluster has no kind {kind}", "集群中没有类型 {kind}"],
  unknownNext: ["Create other objects from YAML.", "用 YAML 创建其他对象。"],
  valid: ["The server accepts this.", "服务器接受此内容。"],
  checking: ["Checking…", "检查中…"],
  start: ["Messages of the server appear at their fields as you type.", "输入时，服务器的消息会显示在相应字段旁。"],
});

export default function CreateView({ cluster, params, query }: ViewProps) {
  const kind = params["kind"] ?? "Deployment";
  const { catalog: resources } = discovery(cluster).value;
  // Lists name their kind as addresses do: `apps~v1~deployments`.
  const resource = resources?.byRouteName(kind);
  const model = resource ? modelOfResource(resource) : modelOf(kind);
  const isYaml = kind.toLowerCase() === "yaml";
  const namespace = query["namespace"] || currentNamespace.peek() || "default";
  if (!resources && kind.includes("~")) return <div class="page"><Loading /></div>;
  return (
    <div class="page">
      <div class="page-header"><h1>{t("title")}{model || resource ? ` ${(model ?? resource)?.kind}` : ""}</h1></div>
      <nav class="create-kinds" aria-label={t("kinds")}>
        {MODELS.map((item) => (
          <a key={item.kind} href={href(["c", cluster, "create", item.kind])} aria-current={item === model ? "page" : undefined}>{item.kind}</a>
        ))}
        <a href={href(["c", cluster, "create", "yaml"])} aria-current={isYaml ? "page" : undefined}>{t("yaml")}</a>
      </nav>
      {isYaml && <Manifests cluster={cluster} initialText={takeDraft()} isDraft />}
      {model && <CreateForm key={model.kind} cluster={cluster} model={model} initialNamespace={namespace} />}
      {resource && !model && <CreateFromSkeleton key={kind} cluster={cluster} resource={resource} namespace={namespace} />}
      {!model && !resource && !isYaml && (
        <Empty title={t("unknown", { kind })}><a href={href(["c", cluster, "create", "yaml"])}>{t("unknownNext")}</a></Empty>
      )}
    </div>
  );
}

/** A kind without a form: the editor starts with what every object of the kind has. */
function CreateFromSkeleton({ cluster, resource, namespace }: { cluster: string; resource: Resource; namespace: string }) {
  const skeleton = useLoad(async () => {
    const metadata = resource.namespaced ? { name: "", namespace } : { name: "" };
    const head = toYaml({ apiVersion: apiVersion(resource), kind: resource.kind, metadata });
    const fields = await completionsAt(cluster, head, head.length);
    return fields?.completions.some((field) => field.label === "spec") ? `${head}spec:\n  ` : head;
  }, [cluster, resource.name, resource.group]);
  return skeleton.value === undefined ? <Loading /> : <Manifests cluster={cluster} initialText={skeleton.value} />;
}

let draft = "";

/** The manifest that the form handed over to the YAML editor. */
function takeDraft(): string {
  const taken = draft;
  draft = "";
  return taken;
}

function CreateForm({ cluster, model, initialNamespace }: { cluster: string; model: FormModel; initialNamespace: string }) {
  const { catalog: resources, error: discoveryError } = discovery(cluster).value;
  const resource = resources?.byKind(model.apiVersion, model.kind);
  if (discoveryError && !resource) return <ErrorBox error={discoveryError} />;
  if (!resource) return <Loading />;
  return <Form cluster={cluster} model={model} resource={resource} initialNamespace={initialNamespace} />;
}

interface Check {
  readonly manifest: string;
  readonly error: ApiError | null;
}

function Form({ cluster, model, resource, initialNamespace }: { cluster: string; model: FormModel; resource: Resource; initialNamespace: string }) {
  const fields = useMemo(() => [...model.fields, ...model.advanced], [model]);
  const [values, setValues] = useState<FormValues>(() => initialValues(fields));
  const [namespace, setNamespace] = useState(initialNamespace);
  const [check, setCheck] = useState<Check | null>(null);
  const [isReviewing, setReviewing] = useState(false);
  const manifest = useMemo(() => buildManifest(model, values, namespace), [model, values, namespace]);
  const text = JSON.stringify(manifest);
  const settled = useDebounced(text, 350);
  const name = manifest.metadata.name;
  const namespaces = useLiveObjects(cluster, { path: "/api/v1/namespaces", limit: 500 }).objects;
  const may = access(cluster, { verb: "create", group: resource.group, resource: resource.name, namespace }).value;
  const write: Write = { cluster, resource, namespace, name, text, method: "create" };
  const isTouched = JSON.stringify(values) !== JSON.stringify(initialValues(fields));
  const forget = useUnsaved(isTouched);

  useEffect(() => {
    if (!isTouched) return undefined;
    const controller = new AbortController();
    send({ ...write, text: settled }, true, controller.signal).then(
      () => setCheck({ manifest: settled, error: null }),
      (reason: unknown) => { if (!controller.signal.aborted) setCheck({ manifest: settled, error: asApiError(reason) }); },
    );
    return () => controller.abort();
  }, [settled]);

  const causes = check?.error?.status.details?.causes ?? [];
  const { byPath, others } = placeCauses(causes, allPaths(fields, values));
  const rest = check?.error && (causes.length === 0 || others.length > 0) ? check.error : null;
  const state = !isTouched ? t("start") : check?.manifest !== text ? t("checking") : check.error ? "" : t("valid");
  const toEditor = () => {
    draft = toYaml(manifest);
    forget();
    navigate(href(["c", cluster, "create", "yaml"]));
  };

  return (
    <div class="create">
      <form class="stack" onSubmit={(event) => { event.preventDefault(); setReviewing(true); }}>
        <Field label={t("namespace")} value={namespace} onInput={setNamespace} list={(namespaces ?? []).map((item) => item.metadata.name)} error={byPath.get("metadata.namespace")} />
        <div class="form-fields"><FormFields fields={model.fields} values={values} onChange={setValues} errors={byPath} /></div>
        <details>
          <summary>{t("advanced")}</summary>
          <div class="form-fields"><FormFields fields={model.advanced} values={values} onChange={setValues} errors={byPath} /></div>
        </details>
        {rest && <ErrorBox error={rest} />}
        <div class="toolbar">
          <ActionButton access={may} look="primary" type="submit" disabled={!name}>{t("review")}</ActionButton>
          <span class="muted" role="status">{state}</span>
        </div>
      </form>
      <aside class="create-preview" aria-label={t("preview")}>
        <div class="row"><h2>{t("preview")}</h2><button type="button" class="button" onClick={toEditor}>{t("edit")}</button></div>
        <pre tabIndex={0}>{toYaml(manifest)}</pre>
        <KubectlHint command={kubectl.create(`${name || model.resource}.yaml`)} />
      </aside>
      {isReviewing && (
        <ReviewDialog writes={[write]} command={kubectl.create(`${name}.yaml`)} onClose={() => setReviewing(false)}
          onDone={() => { forget(); navigate(objectHref(cluster, resource, namespace, name)); }} />
      )}
    </div>
  );
}
