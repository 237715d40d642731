/** Reads and changes the number of replicas through the scale subresource, which says where a custom kind has them. */
import { useEffect, useState } from "preact/hooks";
import { asApiError, cluster, type ApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import { at, type KubernetesObject } from "../../app/kubernetes";
import { objectPath } from "../../app/resources";
import { Button, ErrorBox, Field } from "../../components";
import type { ActionProps } from "..";
import { kubectl } from "./kubectl";
import { PatchDialog } from "./PatchDialog";

const t = catalog({
  title: ["Scale {name}", "伸缩 {name}"],
  several: ["Scale {n} objects", "伸缩 {n} 个对象"],
  replicas: ["Replicas", "副本数"],
  action: ["Scale", "伸缩"],
  fewer: ["One fewer", "减一"],
  more: ["One more", "加一"],
  invalid: ["A whole number from 0.", "从 0 开始的整数。"],
});

export default function Scale({ cluster: clusterName, resource, targets, onClose }: ActionProps) {
  const [text, setText] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const first = targets[0];
  useEffect(() => {
    if (!first) return;
    void cluster(clusterName).k8s<KubernetesObject>(`${objectPath(resource, first.namespace, first.name)}/scale`).then(
      (scale) => setText((typed) => typed || String(at(scale, "spec", "replicas") ?? 0)), // The server leaves out a zero.
      (reason: unknown) => setError(asApiError(reason)));
  }, []);
  const replicas = /^\d+$/.test(text) ? Number(text) : null;
  return (
    <PatchDialog
      title={targets.length === 1 ? t("title", { name: first?.name ?? "" }) : t("several", { n: targets.length })}
      action={t("action")} cluster={clusterName} resource={resource} targets={targets} onClose={onClose}
      patch={replicas === null ? null : { mediaType: "application/merge-patch+json", body: { spec: { replicas } }, subresource: "scale" }}
      command={targets.map((target) => kubectl.scale({ resource, namespace: target.namespace ?? "", name: target.name }, replicas ?? 0)).join("\n")}>
      {error && <ErrorBox error={error} />}
      <div class="row">
        <Button label={t("fewer")} disabled={!replicas} onClick={() => setText(String((replicas ?? 1) - 1))}>−</Button>
        <Field label={t("replicas")} type="number" value={text} onInput={setText} error={text && replicas === null ? t("invalid") : undefined} />
        <Button icon="plus" label={t("more")} onClick={() => setText(String((replicas ?? 0) + 1))} />
      </div>
    </PatchDialog>
  );
}
