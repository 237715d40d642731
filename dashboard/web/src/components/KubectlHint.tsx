/** The same as a kubectl command, to copy. */
import { useState } from "preact/hooks";
import { catalog } from "../app/i18n";
import { Button } from "./Button";
import { Icon } from "./Icon";

const t = catalog({
  label: ["The same with kubectl", "对应的 kubectl 命令"],
  copy: ["Copy the command", "复制命令"],
  copied: ["Copied", "已复制"],
});

export function KubectlHint({ command }: { command: string }) {
  return (
    <div class="kubectl" role="group" aria-label={t("label")}>
      <Icon name="terminal" />
      <code tabIndex={0}>{command}</code>
      <CopyButton text={command} label={t("copy")} />
    </div>
  );
}

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    window.setTimeout(() => setCopied(false), 1500);
  };
  return (
    <>
      <Button icon={isCopied ? "check" : "copy"} look="quiet" label={label} onClick={() => void copy()} />
      <span class="visually-hidden" aria-live="polite">{isCopied ? t("copied") : ""}</span>
    </>
  );
}
