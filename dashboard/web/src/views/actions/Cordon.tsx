/** Cordons nodes, so that no further pods are scheduled to them, or uncordons them. */
import { catalog } from "../../app/i18n";
import { at } from "../../app/kubernetes";
import type { ActionProps } from "..";
import { kubectl } from "./kubectl";
import { PatchDialog } from "./PatchDialog";

const t = catalog({
  cordon: ["Cordon {name}", "停止向 {name} 调度"],
  uncordon: ["Uncordon {name}", "恢复向 {name} 调度"],
  cordonHelp: ["No further pods are scheduled to it. Pods that run there stay.", "不再向该节点调度新的 Pod，已运行的 Pod 不受影响。"],
  uncordonHelp: ["The scheduler may choose it again.", "调度器可再次选择该节点。"],
  actionCordon: ["Cordon", "停止调度"],
  actionUncordon: ["Uncordon", "恢复调度"],
});

export default function Cordon({ cluster, resource, targets, object, onClose }: ActionProps) {
  const isCordoned = at(object, "spec", "unschedulable") === true;
  const names = targets.map((target) => target.name);
  return (
    <PatchDialog title={t(isCordoned ? "uncordon" : "cordon", { name: names.slice(0, 3).join(", ") })} action={t(isCordoned ? "actionUncordon" : "actionCordon")}
      cluster={cluster} resource={resource} targets={targets} onClose={onClose}
      patch={{ mediaType: "application/merge-patch+json", body: { spec: { unschedulable: isCordoned ? null : true } } }}
      command={names.map((name) => kubectl.cordon(name, !isCordoned)).join("\n")}>
      <p>{isCordoned ? t("uncordonHelp") : t("cordonHelp")}</p>
    </PatchDialog>
  );
}
