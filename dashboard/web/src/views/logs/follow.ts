/** Follows the logs of several containers into one buffer, and connects again where a stream breaks. */
import { ApiError, asApiError, cluster } from "../../app/http";
import { LineSplitter, LogBuffer, logPath, type LogSource } from "./lines";

export interface FollowOptions {
  readonly isFollowing: boolean;
  readonly isPrevious: boolean;
  readonly tailLines: number;
  readonly sinceSeconds: number;
}

const RETRY_MS = 3000;
const REDRAW_MS = 120;

/** One reading of logs; a change of its options or sources needs another one. */
export class LogReader {
  readonly buffer = new LogBuffer();
  readonly errors = new Map<number, ApiError>();
  private readonly controller = new AbortController();
  private readonly last = new Map<number, string>();
  private timer = 0;

  constructor(
    private readonly clusterName: string,
    readonly sources: readonly LogSource[],
    private readonly options: FollowOptions,
    private readonly onChange: () => void,
  ) {
    sources.forEach((_source, index) => void this.read(index));
  }

  close(): void {
    this.controller.abort();
    window.clearTimeout(this.timer);
  }

  private changed(): void {
    if (this.timer) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      if (!this.controller.signal.aborted) this.onChange();
    }, REDRAW_MS);
  }

  private async read(index: number): Promise<void> {
    const { signal } = this.controller;
    while (!signal.aborted) {
      try {
        await this.readOnce(index, signal);
        if (!this.options.isFollowing || this.options.isPrevious) return;
      } catch (reason) {
        if (signal.aborted) return;
        const error = asApiError(reason);
        this.errors.set(index, error);
        this.changed();
        const isFinal = error.code >= 400 && error.code < 500 && error.code !== 400;
        if (isFinal || !this.options.isFollowing) return;
      }
      await new Promise((resolve) => window.setTimeout(resolve, RETRY_MS));
    }
  }

  private async readOnce(index: number, signal: AbortSignal): Promise<void> {
    const { isFollowing, isPrevious, tailLines, sinceSeconds } = this.options;
    const after = this.last.get(index);
    const path = logPath(this.sources[index]!, {
      follow: isFollowing && !isPrevious, previous: isPrevious,
      ...(after ? { sinceTime: after } : { tailLines, sinceSeconds }),
    });
    const response = await cluster(this.clusterName).k8sResponse(path, { signal, headers: { Accept: "*/*" } });
    this.errors.delete(index);
    const splitter = new LineSplitter();
    const reader = response.body?.getReader();
    if (!reader) return;
    for (;;) {
      const { done, value } = await reader.read();
      this.add(index, done ? splitter.end() : splitter.push(value), after);
      if (done) return;
    }
  }

  /** After a break the server repeats the lines of the last second: those that are known are left out. */
  private add(index: number, lines: readonly string[], after: string | undefined): void {
    const fresh = after ? lines.filter((line) => line.slice(0, line.indexOf(" ")) > after) : lines;
    if (!fresh.length) return;
    this.buffer.add(index, fresh);
    const time = fresh[fresh.length - 1]!.split(" ", 1)[0] ?? "";
    if (/^\d{4}-/.test(time)) this.last.set(index, time);
    this.changed();
  }
}
