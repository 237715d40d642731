/** An error of the API in the words of the server, with its causes by field and what to do next. */
import type { ApiError } from "../app/http";
import { catalog } from "../app/i18n";
import { Button } from "./Button";
import { Icon } from "./Icon";

const t = catalog({
  forbidden: ["Not allowed", "无权限"],
  forbiddenNext: ["Ask an administrator for a Role that allows it, or choose a namespace in which you may.", "请管理员授予允许该操作的 Role，或选择您有权限的 namespace。"],
  unauthorized: ["The server does not accept these credentials", "服务器不接受这些凭据"],
  notFound: ["Not found", "未找到"],
  network: ["The server does not respond", "服务器无响应"],
  networkNext: ["The page tries again by itself.", "页面会自动重试。"],
  invalid: ["The server refuses the object", "服务器拒绝了该对象"],
  exists: ["There is an object with this name already", "已存在同名对象"],
  conflict: ["The object has changed meanwhile", "对象已被修改"],
  failed: ["The request failed", "请求失败"],
  retry: ["Try again", "重试"],
});

function title(error: ApiError): string {
  if (error.code === 401) return t("unauthorized");
  if (error.code === 403) return t("forbidden");
  if (error.code === 404) return t("notFound");
  if (error.status.reason === "AlreadyExists") return t("exists");
  if (error.code === 409) return t("conflict");
  if (error.code === 422) return t("invalid");
  return error.code === 0 ? t("network") : t("failed");
}

export function ErrorBox({ error, onRetry }: { error: ApiError; onRetry?: () => void }) {
  const causes = error.status.details?.causes ?? [];
  const next = error.code === 403 ? t("forbiddenNext") : error.code === 0 ? t("networkNext") : "";
  return (
    <div class={`message ${error.code === 403 ? "neutral" : "bad"}`} role="alert">
      <Icon name={error.code === 403 ? "lock" : "error"} />
      <div>
        <strong>{title(error)}</strong>
        <p>{error.message}</p>
        {causes.length > 0 && (
          <ul>{causes.map((cause, index) => <li key={index}>{cause.field && <code>{cause.field}</code>} {cause.message}</li>)}</ul>
        )}
        {next && <p class="muted">{next}</p>}
        {onRetry && <Button icon="refresh" onClick={onRetry}>{t("retry")}</Button>}
      </div>
    </div>
  );
}
