/** Applies manifests with several documents: typed, pasted, or dropped as files. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { asApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import { namespace as currentNamespace } from "../../app/namespace";
import { discovery, objectHref } from "../../app/resources";
import { useUnsaved } from "../../app/unsaved";
import { Age, Button, Field, KubectlHint } from "../../components";
import { canUndo, changes, undo } from "../actions/undo";
import { kubectl } from "../actions/kubectl";
import { planWrites, send, type Write } from "../editor/apply";
import type { Problem } from "../editor/codemirror";
import { splitDocuments } from "../editor/manifest";
import { problemsOf } from "../editor/problems";
import { ReviewDialog } from "../editor/ReviewDialog";
import { YamlEditor } from "../editor/YamlEditor";
import { useDebounced } from "../load";

const t = catalog({
  label: ["Manifests in YAML", "YAML 清单"],
  drop: ["Drop YAML or JSON files here, or choose them.", "将 YAML 或 JSON 文件拖到此处，或选择文件。"],
  choose: ["Choose files", "选择文件"],
  namespace: ["Namespace for objects that name none", "未指定 namespace 的对象使用"],
  review: ["Review {n} {n|object|objects}", "检查 {n} 个对象"],
  noKind: ["{title}: apiVersion and kind are missing.", "{title}：缺少 apiVersion 和 kind。"],
  unknownKind: ["{title}: the cluster does not serve this kind.", "{title}：集群不支持此类型。"],
  noName: ["{title}: metadata.name is missing.", "{title}：缺少 metadata.name。"],
  tooLarge: ["{name} is larger than 2 MiB.", "{name} 超过 2 MiB。"],
  recent: ["Changes from this page", "本页所做的更改"],
  undo: ["Undo", "撤销"],
  undone: ["undone", "已撤销"],
  created: ["created", "已创建"],
  changed: ["changed", "已修改"],
  deleted: ["deleted", "已删除"],
});

const MOST_BYTES = 2 << 20;
const MOST_CHECKED = 20;

/** A draft is text that a person has typed elsewhere and that is unsaved from the start. */
export function Manifests({ cluster, initialText, isDraft = false }: { cluster: string; initialText: string; isDraft?: boolean }) {
  const [text, setText] = useState(initialText);
  const [applied, setApplied] = useState(isDraft ? "" : initialText);
  useUnsaved(text !== applied && text.trim() !== "");
  const [namespace, setNamespace] = useState(currentNamespace.peek() || "default");
  const [isOver, setOver] = useState(false);
  const [refused, setRefused] = useState("");
  const [reviewed, setReviewed] = useState<readonly Write[] | null>(null);
  const [problems, setProblems] = useState<readonly Problem[]>([]);
  const resources = discovery(cluster).value.catalog;
  const settled = useDebounced(text, 600);
  const plans = useMemo(() => (resources ? planWrites(cluster, resources, text, namespace) : []), [cluster, resources, text, namespace]);
  const writes = plans.flatMap((plan) => plan.write ?? []);

  useEffect(() => {
    if (!resources || !settled.trim()) {
      setProblems([]);
      return undefined;
    }
    const controller = new AbortController();
    const documents = splitDocuments(settled);
    const checks = planWrites(cluster, resources, settled, namespace).slice(0, MOST_CHECKED).map(async (plan, index): Promise<Problem[]> => {
      if (!plan.write) return [];
      try {
        await send({ ...plan.write, force: true }, true, controller.signal);
        return [];
      } catch (reason) {
        return problemsOf(asApiError(reason), plan.write.text, documents[index]?.line ?? 0);
      }
    });
    void Promise.all(checks).then((all) => { if (!controller.signal.aborted) setProblems(all.flat()); });
    return () => controller.abort();
  }, [settled, resources, namespace]);

  const addFiles = async (files: Iterable<File>) => {
    setRefused("");
    const texts: string[] = [];
    for (const file of files) {
      if (file.size > MOST_BYTES) setRefused(t("tooLarge", { name: file.name }));
      else texts.push((await file.text()).trim());
    }
    if (texts.length) setText([text.trim(), ...texts].filter(Boolean).join("\n---\n") + "\n");
  };

  return (
    <div class="stack">
      <div class={`drop ${isOver ? "over" : ""}`}
        onDragOver={(event) => { event.preventDefault(); setOver(true); }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => { event.preventDefault(); setOver(false); void addFiles(event.dataTransfer?.files ?? []); }}>
        <p>{t("drop")}</p>
        <label class="button file-button">{t("choose")}
          <input class="visually-hidden" type="file" multiple accept=".yaml,.yml,.json,application/yaml,application/json" onChange={(event) => { void addFiles([...(event.currentTarget.files ?? [])]); event.currentTarget.value = ""; }} />
        </label>
        {refused && <p class="field-error" role="alert">{refused}</p>}
      </div>
      <YamlEditor cluster={cluster} label={t("label")} text={text} onChange={setText} problems={problems} />
      <Field label={t("namespace")} value={namespace} onInput={setNamespace} />
      <div class="toolbar">
        <Button look="primary" disabled={writes.length === 0} onClick={() => setReviewed(writes)}>{t("review", { n: writes.length })}</Button>
      </div>
      {(problems.length > 0 || plans.some((plan) => plan.problem)) && (
        <ul class="problems" role="alert">
          {plans.map((plan, index) => plan.problem && <li key={`plan-${index}`}>{t(plan.problem, { title: plan.title })}</li>)}
          {problems.map((problem, index) => <li key={index}>{problem.line + 1}: {problem.message}</li>)}
        </ul>
      )}
      <KubectlHint command={kubectl.apply("manifests.yaml")} />
      <RecentChanges cluster={cluster} />
      {reviewed && (
        <ReviewDialog writes={reviewed} command={kubectl.apply("manifests.yaml")} onClose={() => setReviewed(null)}
          onDone={() => { setReviewed(null); setApplied(text); }} />
      )}
    </div>
  );
}

function RecentChanges({ cluster }: { cluster: string }) {
  const own = changes.value.filter((change) => change.cluster === cluster);
  if (!own.length) return null;
  return (
    <section class="stack" aria-labelledby="recent-changes">
      <h2 id="recent-changes">{t("recent")}</h2>
      <ul class="change-list">
        {own.map((change) => (
          <li key={change.id}>
            <span class="muted"><Age timestamp={new Date(change.time).toISOString()} /></span>
            <span><a href={objectHref(cluster, change.resource, change.namespace, change.name)}>{change.resource.kind} {change.namespace ? `${change.namespace}/` : ""}{change.name}</a> {t(change.verb)}</span>
            {canUndo(change) ? <Button onClick={() => void undo(change)}>{t("undo")}</Button> : <span class="muted">{change.isUndone ? t("undone") : ""}</span>}
          </li>
        ))}
      </ul>
    </section>
  );
}
