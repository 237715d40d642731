/** The object as YAML, live, with the managed fields folded away. */
import { useMemo, useState } from "preact/hooks";
import { catalog } from "../../app/i18n";
import { objectCommand } from "../../app/kubectl";
import { toYaml } from "../../app/yaml";
import { Button, Checkbox, CopyButton, KubectlHint } from "../../components";
import type { DetailTabProps } from "..";

const t = catalog({
  managed: ["Managed fields ({n} {n|manager|managers})", "Managed fields（{n} 个管理者）"],
  copy: ["Copy the YAML", "复制 YAML"],
  download: ["Download", "下载"],
  hideStatus: ["Hide status", "隐藏 status"],
  label: ["YAML of {name}", "{name} 的 YAML"],
});

export default function Yaml({ resource, object }: DetailTabProps) {
  const [isStatusHidden, setStatusHidden] = useState(false);
  const { managedFields, ...metadata } = object.metadata;
  const text = useMemo(() => {
    const { status, ...rest }: Record<string, unknown> = { ...object, metadata };
    return toYaml(isStatusHidden || status === undefined ? rest : { ...rest, status });
  }, [object, isStatusHidden]);
  const managed = useMemo(() => (managedFields?.length ? toYaml({ managedFields }) : ""), [managedFields]);
  const download = (): void => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
    link.download = `${metadata.name}.yaml`;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return (
    <div class="stack">
      <div class="toolbar">
        <Checkbox label={t("hideStatus")} checked={isStatusHidden} onChange={setStatusHidden} />
        <CopyButton text={text} label={t("copy")} />
        <Button onClick={download}>{t("download")}</Button>
      </div>
      <YamlCode text={text} label={t("label", { name: metadata.name })} />
      {managed && (
        <details>
          <summary>{t("managed", { n: managedFields?.length ?? 0 })}</summary>
          <YamlCode text={managed} label={t("managed", { n: managedFields?.length ?? 0 })} />
        </details>
      )}
      <KubectlHint command={objectCommand("get", resource, metadata.namespace, metadata.name, "-o", "yaml")} />
    </div>
  );
}

/** YAML with keys and values told apart by colour; all of it is text. */
export function YamlCode({ text, label }: { text: string; label: string }) {
  return (
    <pre class="code yaml" tabIndex={0} aria-label={label} role="region">
      {text.split("\n").map((line, index) => {
        const [, lead = "", key, rest = ""] = /^(\s*(?:- )*)([^\s"'|][^:\s]*:|"[^"]*":)?(.*)$/.exec(line) ?? [];
        return <span key={index}>{lead}{key && <span class="yaml-key">{key}</span>}{rest}{"\n"}</span>;
      })}
    </pre>
  );
}
