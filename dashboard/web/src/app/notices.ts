/** Short notices at the edge of the page: what an action did, and a way to undo it. */
import { signal } from "@preact/signals";

export interface Notice {
  readonly id: number;
  readonly level: "success" | "error" | "info";
  readonly text: string;
  readonly action?: { readonly label: string; readonly run: () => void };
}

const SHOWN_MS = 8000;
export const notices = signal<readonly Notice[]>([]);
let nextId = 1;

export function notify(notice: Omit<Notice, "id">): void {
  const id = nextId++;
  notices.value = [...notices.peek().slice(-3), { ...notice, id }];
  if (notice.level !== "error") window.setTimeout(() => dismiss(id), SHOWN_MS);
}

export function dismiss(id: number): void {
  notices.value = notices.peek().filter((notice) => notice.id !== id);
}
