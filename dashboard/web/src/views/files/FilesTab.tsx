/** Files of a container, volumes included: lists directories and downloads files through exec. */
import { useEffect, useRef, useState } from "preact/hooks";
import { access } from "../../app/access";
import { asApiError, type ApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import { at, list, text } from "../../app/kubernetes";
import { ApiError as RequestError } from "../../app/http";
import { href, location, navigate, setQuery } from "../../app/router";
import { Button, Empty, ErrorBox, KubectlHint, Loading, Select } from "../../components";
import type { DetailTabProps } from "..";
import { kubectl } from "../actions/kubectl";
import { saveFile, useLoad } from "../load";
import { containersOf, isClaim, isRunning, mountsOfClaim, usePods } from "../pods";
import { runCommand } from "../terminal/exec";
import { type FileEntry, formatBytes, joinPath, listCommand, parentPath, parseListing, readTar, safeFilename, visibleName } from "./listing";
import "./files.css";

const t = catalog({
  pod: ["Pod", "Pod"],
  container: ["Container", "容器"],
  path: ["Directory", "目录"],
  go: ["Open", "打开"],
  up: ["Parent directory", "上级目录"],
  places: ["Volumes", "卷"],
  name: ["Name", "名称"],
  size: ["Size", "大小"],
  mode: ["Mode", "权限"],
  owner: ["Owner", "所有者"],
  modified: ["Modified", "修改时间"],
  download: ["Download {name}", "下载 {name}"],
  archive: ["Download directory as tar", "将目录下载为 tar"],
  empty: ["The directory is empty", "目录为空"],
  none: ["No container runs", "没有运行中的容器"],
  noneNext: ["Files are read with a command in a running container.", "文件通过运行中容器内的命令读取。"],
  unmounted: ["No running pod mounts this claim", "没有运行中的 Pod 挂载此声明"],
  unmountedNext: ["The files of a volume are read in a pod that mounts it.", "卷中的文件通过挂载它的 Pod 读取。"],
  loading: ["{size} received", "已接收 {size}"],
  cancel: ["Cancel", "取消"],
  tooLarge: ["It is larger than {size}. Use kubectl cp.", "超过 {size}，请使用 kubectl cp。"],
  noShell: ["The image has no shell with ls: use a debug container.", "镜像中没有 shell 或 ls：请使用调试容器。"],
  denied: ["You may not run commands in this pod.", "您无权在此 Pod 中执行命令。"],
  failed: ["The download failed: {message}", "下载失败：{message}"],
});

const MOST_DOWNLOAD = 256 << 20;

export default function FilesTab({ cluster, resource, object, query }: DetailTabProps) {
  const pods = usePods(cluster, resource, object);
  const [progress, setProgress] = useState<number | null>(null);
  const [failure, setFailure] = useState("");
  const download = useRef<AbortController | null>(null);
  const running = (pods.objects ?? []).filter((item) => containersOf(item).some(({ name }) => isRunning(item, name)));
  const pod = running.find((item) => item.metadata.name === query["pod"]) ?? running[0];
  const containers = pod ? containersOf(pod).filter(({ name }) => isRunning(pod, name)).map(({ name }) => name) : [];
  const claimed = pod && isClaim(resource) ? mountsOfClaim(pod, object.metadata.name).find((mount) => containers.includes(mount.container)) : undefined;
  const container = containers.find((name) => name === query["container"]) ?? claimed?.container ?? containers[0] ?? "";
  const path = query["path"] ?? claimed?.path ?? "/";
  const [typed, setTyped] = useState(path);
  useEffect(() => setTyped(path), [path]);
  const namespace = object.metadata.namespace ?? "";
  const target = { namespace, pod: pod?.metadata.name ?? "", container };
  const may = access(cluster, { verb: "create", group: "", resource: "pods", subresource: "exec", namespace }).value;

  const entries = useLoad(async (): Promise<FileEntry[] | null> => {
    if (!target.pod || may.allowed === false) return null;
    const result = await runCommand(cluster, target, listCommand(path));
    if (!result.exit.ok && !result.output.length) {
      const message = result.errors.trim() || result.exit.message;
      throw new RequestError({ code: 400, message: /executable file|no such file.*sh|not found/i.test(message) && !message.includes(path) ? t("noShell") : message });
    }
    return parseListing(result.output);
  }, [cluster, target.pod, container, path, may.allowed]);

  // Each directory is a step of the browser's history.
  const open = (next: string) => navigate(href(location.peek().segments, { ...query, path: next }));
  /** Saves one file of a directory, or all of it, which has no name, as an archive. */
  const fetchArchive = async (directory: string, name = "") => {
    setFailure("");
    setProgress(0);
    const controller = (download.current = new AbortController());
    try {
      const result = await runCommand(cluster, target, ["tar", name ? "chf" : "cf", "-", "-C", directory, "--", name || "."], { mostBytes: MOST_DOWNLOAD, signal: controller.signal, onProgress: setProgress });
      if (controller.signal.aborted) return;
      if (result.isTruncated) setFailure(t("tooLarge", { size: formatBytes(MOST_DOWNLOAD) }));
      else {
        const entries = readTar(result.output);
        const file = entries.find((item) => item.type === "file");
        if (name && file) saveFile(safeFilename(name), file.data.slice().buffer);
        else if (!name && entries.length) saveFile(`${safeFilename(directory.slice(directory.lastIndexOf("/") + 1))}.tar`, result.output.slice().buffer, "application/x-tar");
        else setFailure(t("failed", { message: result.errors || result.exit.message }));
      }
    } catch (reason) {
      setFailure(t("failed", { message: asApiError(reason).message }));
    } finally {
      setProgress(null);
    }
  };

  if (pods.error) return <ErrorBox error={pods.error} />;
  if (!pods.objects) return <Loading />;
  if (!pod) return isClaim(resource) ? <Empty title={t("unmounted")}>{t("unmountedNext")}</Empty> : <Empty title={t("none")}>{t("noneNext")}</Empty>;
  if (may.allowed === false) return <Empty title={t("denied")}>{may.reason}</Empty>;
  const mounts = list(at(list(at(pod, "spec", "containers")).find((item) => at(item, "name") === container), "volumeMounts"));
  const error: ApiError | null = entries.error;
  return (
    <div class="stack">
      <form class="toolbar" onSubmit={(event) => { event.preventDefault(); open(typed || "/"); }}>
        {running.length > 1 && <Select label={t("pod")} hideLabel value={pod.metadata.name} options={running.map((item) => [item.metadata.name, item.metadata.name])} onChange={(name) => setQuery({ pod: name })} />}
        <Select label={t("container")} hideLabel value={container} options={containers.map((name) => [name, name])} onChange={(name) => setQuery({ container: name })} />
        <Button icon="arrowUp" label={t("up")} disabled={path === "/"} onClick={() => open(parentPath(path))} />
        <input class="files-path" aria-label={t("path")} value={typed} onInput={(event) => setTyped(event.currentTarget.value)} spellcheck={false} />
        <Button type="submit">{t("go")}</Button>
        <Button disabled={path === "/"} onClick={() => void fetchArchive(path)}>{t("archive")}</Button>
      </form>
      {mounts.length > 0 && (
        <div class="row files-places"><span class="muted">{t("places")}</span>
          {mounts.map((mount) => {
            const place = text(at(mount, "mountPath"));
            return <button key={place} type="button" class="button quiet" onClick={() => open(place)}>{text(at(mount, "name"))}: <code>{place}</code></button>;
          })}
        </div>
      )}
      {progress !== null && <div class="row" role="status"><span>{t("loading", { size: formatBytes(progress) })}</span><Button onClick={() => download.current?.abort()}>{t("cancel")}</Button></div>}
      {failure && <p class="field-error" role="alert">{failure}</p>}
      {error && <ErrorBox error={error} onRetry={entries.reload} />}
      {!entries.value && !error && <Loading />}
      {entries.value && entries.value.length === 0 && <Empty title={t("empty")} />}
      {entries.value && entries.value.length > 0 && (
        <div class="files-frame" tabIndex={0} role="group" aria-label={path}>
          <table class="files">
            <thead><tr><th scope="col">{t("name")}</th><th scope="col" class="end">{t("size")}</th><th scope="col">{t("mode")}</th><th scope="col">{t("owner")}</th><th scope="col">{t("modified")}</th></tr></thead>
            <tbody>
              {entries.value.map((entry) => (
                <tr key={entry.name}>
                  <td>
                    {entry.type === "directory"
                      ? <button type="button" class="files-name directory" onClick={() => open(joinPath(path, entry.name))}>{visibleName(entry.name)}/</button>
                      : entry.type === "other" ? <span>{visibleName(entry.name)}</span>
                        : <button type="button" class="files-name" title={t("download", { name: visibleName(entry.name) })} onClick={() => void fetchArchive(path, entry.name)}>{visibleName(entry.name)}</button>}
                    {entry.target && <span class="muted"> → {visibleName(entry.target)}</span>}
                  </td>
                  <td class="end">{entry.type === "file" ? formatBytes(entry.size) : ""}</td>
                  <td class="mono">{entry.mode}</td><td class="mono">{entry.owner}</td><td>{entry.modified}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <KubectlHint command={kubectl.copy(namespace, pod.metadata.name, container, path, "./")} />
    </div>
  );
}
