/** Above every view: the connection is broken, or the session of an idle page ends soon. */
import { Button, Icon } from "../components";
import { catalog } from "./i18n";
import { idleWarning, stayLoggedIn } from "./session";
import { stream } from "./stream";
import { now } from "./time";

const t = catalog({
  broken: ["Connection lost. What you see may be old. Next attempt in {s} s.", "连接已断开，显示的内容可能已过时。{s} 秒后重试。"],
  retry: ["Connect", "立即连接"],
  idle: ["You will be logged out in {s} s, because this page is idle.", "页面空闲，{s} 秒后将自动退出登录。"],
  stay: ["Stay logged in", "保持登录"],
});

export function Banner({ cluster }: { cluster: string }) {
  const client = stream(cluster);
  const idle = idleWarning.value;
  return (
    <>
      {client.state.value === "broken" && (
        <div class="banner warning" role="status">
          <Icon name="warning" />
          <span>{t("broken", { s: Math.max(0, Math.ceil((client.retryAt.value - now.value) / 1000)) })}</span>
          <Button onClick={() => client.retryNow()}>{t("retry")}</Button>
        </div>
      )}
      {idle !== null && (
        <div class="banner warning" role="alert">
          <Icon name="warning" />
          <span>{t("idle", { s: idle })}</span>
          <Button look="primary" onClick={() => void stayLoggedIn()}>{t("stay")}</Button>
        </div>
      )}
    </>
  );
}
