/** Runs a CronJob at once: creates a Job from its template. */
import { useMemo } from "preact/hooks";
import { catalog } from "../../app/i18n";
import { at, record, type KubernetesObject } from "../../app/kubernetes";
import { cluster } from "../../app/http";
import { discovery, objectHref, objectPath } from "../../app/resources";
import { navigate } from "../../app/router";
import { Dialog, ErrorBox, Loading } from "../../components";
import type { ActionProps } from "..";
import { ReviewDialog } from "../editor/ReviewDialog";
import { useLoad } from "../load";
import { kubectl } from "./kubectl";

const t = catalog({ title: ["Run {name} now", "立即运行 {name}"] });

export default function Trigger({ cluster: clusterName, resource, targets, onClose }: ActionProps) {
  const { namespace = "", name = "" } = targets[0] ?? {};
  const job = useMemo(() => `${name.slice(0, 40)}-manual-${Date.now().toString(36)}`, [name]);
  const jobs = discovery(clusterName).value.catalog?.find("jobs", "batch");
  const live = useLoad(() => cluster(clusterName).k8s<KubernetesObject>(objectPath(resource, namespace, name)), [clusterName, namespace, name]);
  if (!live.value || !jobs) return <Dialog title={t("title", { name })} onClose={onClose}>{live.error ? <ErrorBox error={live.error} /> : <Loading />}</Dialog>;
  const template = record(at(live.value, "spec", "jobTemplate"));
  const manifest = {
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: {
      name: job,
      namespace,
      labels: at(template, "metadata", "labels"),
      annotations: { ...record(at(template, "metadata", "annotations")), "cronjob.kubernetes.io/instantiate": "manual" },
      ownerReferences: [{ apiVersion: "batch/v1", kind: "CronJob", name, uid: live.value.metadata.uid, controller: true }],
    },
    spec: template["spec"],
  };
  return (
    <ReviewDialog writes={[{ cluster: clusterName, resource: jobs, namespace, name: job, text: JSON.stringify(manifest), method: "create" }]}
      command={kubectl.trigger({ resource, namespace, name }, job)} onClose={onClose}
      onDone={() => { onClose(); navigate(objectHref(clusterName, jobs, namespace, job)); }} />
  );
}
