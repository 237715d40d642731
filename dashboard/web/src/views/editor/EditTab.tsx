/** Edits one object as YAML: problems as one types, a diff before it is applied, and a merge when the object changed meanwhile. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { asApiError, type ApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import { access } from "../../app/access";
import { notify } from "../../app/notices";
import { useUnsaved } from "../../app/unsaved";
import { ActionButton, Button, ErrorBox, Icon, KubectlHint, Loading } from "../../components";
import type { DetailTabProps } from "..";
import { kubectl } from "../actions/kubectl";
import { safeFilename } from "../files/listing";
import { saveFile, useDebounced } from "../load";
import { readLive, send, type Write } from "./apply";
import type { Problem } from "./codemirror";
import { withResourceVersion } from "./manifest";
import { merge } from "./merge";
import { problemsOf } from "./problems";
import { ReviewDialog } from "./ReviewDialog";
import { YamlEditor } from "./YamlEditor";
import { objectYaml } from "./yaml";

const t = catalog({
  label: ["YAML of {name}", "{name} 的 YAML"],
  review: ["Review changes", "检查更改"],
  reset: ["Discard my changes", "放弃更改"],
  download: ["Download", "下载"],
  unchanged: ["No changes yet.", "尚无更改。"],
  valid: ["The server accepts this.", "服务器接受此内容。"],
  checking: ["Checking…", "检查中…"],
  stale: ["The object has changed since you began to edit.", "编辑期间对象已发生变化。"],
  merge: ["Take in the changes", "合入这些更改"],
  merged: ["Merged. Review the result.", "已合并，请检查结果。"],
  conflicts: ["{n} {n|place needs|places need} your decision: search for <<<<<<<.", "有 {n} 处需要您决定：搜索 <<<<<<<。"],
});

interface Base {
  readonly text: string;
  readonly resourceVersion: string;
}

export default function EditTab({ cluster, resource, object }: DetailTabProps) {
  const namespace = object.metadata.namespace ?? "";
  const { name } = object.metadata;
  const [base, setBase] = useState<Base | null>(null);
  const [text, setText] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const [isReviewing, setReviewing] = useState(false);
  const [check, setCheck] = useState<{ text: string; problems: readonly Problem[] } | null>(null);
  const settled = useDebounced(text, 600);
  const may = access(cluster, { verb: "update", group: resource.group, resource: resource.name, namespace, name }).value;

  const load = async (keep: (fresh: Base) => string) => {
    try {
      const live = await readLive(cluster, resource, namespace, name);
      if (!live) return;
      const fresh = { text: objectYaml(live), resourceVersion: live.metadata.resourceVersion ?? "" };
      setText(keep(fresh));
      setBase(fresh);
      setError(null);
    } catch (reason) {
      setError(asApiError(reason));
    }
  };
  useEffect(() => void load((fresh) => fresh.text), [cluster, resource.name, namespace, name]);

  const isChanged = base !== null && text !== base.text;
  useUnsaved(isChanged);
  const write: Write = useMemo(
    () => ({ cluster, resource, namespace, name, text: settled, method: "replace" }), [cluster, resource, namespace, name, settled]);

  useEffect(() => {
    if (!base || settled !== text || settled === base.text) {
      setCheck(null);
      return undefined;
    }
    const controller = new AbortController();
    // A newer version of the object is no problem of the text: the review says so.
    const dryRun = { ...write, text: withResourceVersion(settled, "") };
    send(dryRun, true, controller.signal).then(
      () => setCheck({ text: settled, problems: [] }),
      (reason: unknown) => { if (!controller.signal.aborted) setCheck({ text: settled, problems: problemsOf(asApiError(reason), settled) }); },
    );
    return () => controller.abort();
  }, [settled, base]);

  const takeIn = () => {
    if (!base) return;
    void load((fresh) => {
      const result = merge(base.text, text, fresh.text);
      notify({ level: result.conflicts ? "error" : "info", text: result.conflicts ? t("conflicts", { n: result.conflicts }) : t("merged") });
      return result.text;
    });
    setReviewing(false);
  };

  if (error) return <ErrorBox error={error} onRetry={() => void load((fresh) => fresh.text)} />;
  if (!base) return <Loading />;
  const isStale = isChanged && Boolean(object.metadata.resourceVersion) && isNewer(object.metadata.resourceVersion ?? "", base.resourceVersion);
  const problems = check?.problems ?? [];
  const state = !isChanged ? t("unchanged") : check?.text !== text ? t("checking") : problems.length ? "" : t("valid");

  return (
    <div class="stack">
      <div class="toolbar">
        <ActionButton access={may} look="primary" disabled={!isChanged} onClick={() => setReviewing(true)}>{t("review")}</ActionButton>
        <Button disabled={!isChanged} onClick={() => setText(base.text)}>{t("reset")}</Button>
        <Button onClick={() => saveFile(safeFilename(`${name}.yaml`), text, "application/yaml")}>{t("download")}</Button>
        <span class="muted" role="status">{state}</span>
      </div>
      {isStale && (
        <div class="message warning" role="status">
          <Icon name="warning" />
          <div><p>{t("stale")}</p><Button onClick={takeIn}>{t("merge")}</Button></div>
        </div>
      )}
      <YamlEditor cluster={cluster} label={t("label", { name })} text={text} onChange={setText} problems={problems} />
      {problems.length > 0 && <ul class="problems" role="alert">{problems.map((problem, index) => <li key={index}>{problem.line + 1}: {problem.message}</li>)}</ul>}
      <KubectlHint command={kubectl.edit({ resource, namespace, name })} />
      {isReviewing && (
        <ReviewDialog
          writes={[{ ...write, text }]}
          command={kubectl.replace(`${name}.yaml`)}
          onClose={() => setReviewing(false)}
          onMerge={takeIn}
          onTakeTheirs={() => { setReviewing(false); void load((fresh) => fresh.text); }}
          onDone={() => { setReviewing(false); void load((fresh) => fresh.text); }}
        />
      )}
    </div>
  );
}

/** Resource versions of this server are numbers; a foreign server's are compared for difference only. */
function isNewer(live: string, own: string): boolean {
  if (/^\d+$/.test(live) && /^\d+$/.test(own)) return BigInt(live) > BigInt(own);
  return live !== own;
}
