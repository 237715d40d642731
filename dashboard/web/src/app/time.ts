/** Ages and times as kubectl writes them. */
import { signal } from "@preact/signals";
import { language } from "./i18n";

/** The current time in milliseconds; moves every second while the page is visible. */
export const now = signal(Date.now());

window.setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

/** `45s`, `3m10s`, `5h2m`, `7d`, `2y31d`: the same steps as kubectl. */
export function formatDuration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 120) return `${s}s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 10) return s % 60 === 0 ? `${minutes}m` : `${minutes}m${s % 60}s`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 === 0 ? `${hours}h` : `${hours}h${minutes % 60}m`;
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (hours < 192) return hours % 24 === 0 ? `${days}d` : `${days}d${hours % 24}h`;
  if (days < 730) return `${days}d`;
  const years = Math.floor(days / 365);
  return years < 8 && days % 365 ? `${years}y${days % 365}d` : `${years}y`;
}

export function age(timestamp: string | undefined, at: number): string {
  const parsed = timestamp ? Date.parse(timestamp) : Number.NaN;
  return Number.isNaN(parsed) ? "" : formatDuration((at - parsed) / 1000);
}

/** The full local time, for titles and histories. */
export function formatTime(timestamp: string | number): string {
  const locale = language.value === "zh" ? "zh-CN" : "en-GB";
  return new Date(timestamp).toLocaleString(locale, { dateStyle: "medium", timeStyle: "medium" });
}
