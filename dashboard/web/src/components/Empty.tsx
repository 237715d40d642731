/** An empty place that says what would be there and what to do next; and a place that still loads. */
import type { ComponentChildren } from "preact";
import { catalog } from "../app/i18n";

const t = catalog({ loading: ["Loading…", "加载中…"] });

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <svg width="72" height="48" viewBox="0 0 72 48" aria-hidden="true" focusable="false">
        <path class="empty-hull" d="M8 32h56l-8 12H18z" />
        <path class="empty-sail" d="M34 4v24H14zM38 10l16 18H38z" />
      </svg>
      <p class="empty-title">{title}</p>
      {children && <div class="muted">{children}</div>}
    </div>
  );
}

export function Loading({ rows = 6 }: { rows?: number }) {
  return (
    <div class="loading" role="status">
      <span class="visually-hidden">{t("loading")}</span>
      {Array.from({ length: rows }, (_, index) => <span key={index} class="skeleton" aria-hidden="true" />)}
    </div>
  );
}
