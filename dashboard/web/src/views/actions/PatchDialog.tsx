/** An action that patches objects: the live object against the dry run of the patch, then the patch itself, for each target. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { asApiError, cluster, type ApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import type { KubernetesObject } from "../../app/kubernetes";
import { objectPath, type Resource } from "../../app/resources";
import { Button, Dialog, ErrorBox, KubectlHint, Loading } from "../../components";
import type { ActionTarget } from "..";
import { FIELD_MANAGER } from "../editor/apply";
import { DiffView } from "../editor/DiffView";
import { objectYaml } from "../editor/yaml";
import { useDebounced } from "../load";
import { rememberChange } from "./undo";

const t = catalog({
  cancel: ["Cancel", "取消"],
  done: ["Changed {done} of {all}", "已更改 {done}/{all}"],
  more: ["and {n} more", "还有 {n} 个"],
});

export interface Patch {
  readonly mediaType: "application/merge-patch+json" | "application/strategic-merge-patch+json" | "application/json-patch+json";
  readonly body: unknown;
  readonly subresource?: string;
}

export interface PatchDialogProps {
  readonly title: string;
  readonly action: string;
  readonly cluster: string;
  readonly resource: Resource;
  readonly targets: readonly ActionTarget[];
  readonly patch: Patch | null;
  readonly command: string;
  readonly isDanger?: boolean;
  readonly onClose: () => void;
  readonly onDone?: () => void;
  readonly children?: ComponentChildren;
}

const MOST_SHOWN = 5;

function pathOf(resource: Resource, target: ActionTarget, patch: Patch): string {
  return objectPath(resource, target.namespace, target.name) + (patch.subresource ? `/${patch.subresource}` : "");
}

export function sendPatch<T>(clusterName: string, path: string, patch: Patch, isDryRun: boolean): Promise<T> {
  const query = new URLSearchParams({ fieldManager: FIELD_MANAGER, ...(isDryRun ? { dryRun: "All" } : {}) });
  return cluster(clusterName).k8s<T>(`${path}?${query}`, { method: "PATCH", headers: { "Content-Type": patch.mediaType }, body: patch.body });
}

interface Preview {
  readonly before?: string;
  readonly after?: string;
  readonly error?: ApiError;
}

function stable(object: KubernetesObject): string {
  const { resourceVersion: _version, ...metadata } = object.metadata as unknown as Record<string, unknown>;
  return objectYaml({ ...object, metadata });
}

export function PatchDialog(props: PatchDialogProps) {
  const { resource, targets, patch } = props;
  const [previews, setPreviews] = useState<readonly Preview[] | null>(null);
  const [failure, setFailure] = useState<ApiError | null>(null);
  const [done, setDone] = useState<number | null>(null);
  const key = useDebounced(JSON.stringify(patch), 200);

  useEffect(() => {
    let isCurrent = true;
    const current = JSON.parse(key) as Patch | null;
    if (!current) return undefined;
    const preview = async (target: ActionTarget): Promise<Preview> => {
      try {
        const path = pathOf(resource, target, current);
        const [live, next] = await Promise.all([
          cluster(props.cluster).k8s<KubernetesObject>(path), sendPatch<KubernetesObject>(props.cluster, path, current, true)]);
        return { before: stable(live), after: stable(next) };
      } catch (reason) {
        return { error: asApiError(reason) };
      }
    };
    void Promise.all(targets.slice(0, MOST_SHOWN).map(preview)).then((all) => { if (isCurrent) setPreviews(all); });
    return () => { isCurrent = false; };
  }, [key]);

  const run = async () => {
    if (!patch) return;
    setFailure(null);
    setDone(0);
    try {
      for (const [index, target] of targets.entries()) {
        const path = objectPath(resource, target.namespace, target.name);
        const before = await cluster(props.cluster).k8s<KubernetesObject>(path);
        await sendPatch(props.cluster, pathOf(resource, target, patch), patch, false);
        rememberChange({ cluster: props.cluster, resource, namespace: target.namespace ?? "", name: target.name }, "changed", before, await cluster(props.cluster).k8s<KubernetesObject>(path));
        setDone(index + 1);
      }
      props.onDone?.();
      props.onClose();
    } catch (reason) {
      setFailure(asApiError(reason));
      setDone(null);
    }
  };

  return (
    <Dialog title={props.title} size="large" onClose={props.onClose} footer={
      <>
        <Button onClick={props.onClose}>{t("cancel")}</Button>
        <Button look={props.isDanger ? "danger" : "primary"} disabled={!patch || done !== null} onClick={() => void run()}>{props.action}</Button>
      </>
    }>
      {props.children}
      {failure && <ErrorBox error={failure} />}
      {done !== null && targets.length > 1 && <p role="status">{t("done", { done, all: targets.length })}</p>}
      {patch && !previews && <Loading rows={3} />}
      {patch && previews?.map((preview, index) => {
        const target = targets[index]!;
        return (
          <section key={target.name} class="stack">
            {targets.length > 1 && <h3>{target.namespace ? `${target.namespace}/` : ""}{target.name}</h3>}
            {preview.error && <ErrorBox error={preview.error} />}
            {preview.before !== undefined && preview.after !== undefined && <DiffView before={preview.before} after={preview.after} />}
          </section>
        );
      })}
      {targets.length > MOST_SHOWN && <p class="muted">{t("more", { n: targets.length - MOST_SHOWN })}</p>}
      <KubectlHint command={props.command} />
    </Dialog>
  );
}
