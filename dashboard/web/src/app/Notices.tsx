/** The notices at the edge of the page, read out by screen readers as they come. */
import { Button, Icon } from "../components";
import { catalog } from "./i18n";
import { dismiss, notices } from "./notices";

const t = catalog({ dismiss: ["Dismiss", "关闭"] });

export function Notices() {
  return (
    <div class="notices" role="status" aria-live="polite">
      {notices.value.map((notice) => (
        <div key={notice.id} class={`notice ${notice.level}`}>
          <Icon name={notice.level === "success" ? "check" : notice.level === "error" ? "error" : "info"} />
          <span>{notice.text}</span>
          {notice.action && <Button look="quiet" onClick={() => { notice.action?.run(); dismiss(notice.id); }}>{notice.action.label}</Button>}
          <Button icon="close" look="quiet" label={t("dismiss")} onClick={() => dismiss(notice.id)} />
        </div>
      ))}
    </div>
  );
}
