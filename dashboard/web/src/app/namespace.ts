/** The namespace that lists and new objects start in; empty means all. It is part of the address where it matters. */
import { effect, signal } from "@preact/signals";
import { location } from "./router";
import { readSetting, writeSetting } from "./settings";

export function isListAddress(segments: readonly string[]): boolean {
  return segments[0] === "c" && segments.length === 3 && (segments[2] ?? "").includes("~");
}

export const namespace = signal(readSetting("namespace") ?? "");

effect(() => {
  const { segments, query } = location.value;
  if (isListAddress(segments)) namespace.value = query["namespace"] ?? "";
  else if (query["namespace"] !== undefined) namespace.value = query["namespace"];
});

effect(() => writeSetting("namespace", namespace.value));
