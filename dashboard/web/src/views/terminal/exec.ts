/** Runs a command in a container and collects its output, for short commands such as `ls`. */
import { cluster } from "../../app/http";
import {
  decodeFrame, encodeClose, encodeFrame, encodeResize, ERROR, execPath, type ExecTarget, type ExitStatus, FALLBACK_PROTOCOL, parseExit,
  PROTOCOL, STDERR, STDIN, STDOUT,
} from "./channels";

export interface ExecHandlers {
  readonly onOpen?: () => void;
  readonly onOutput: (data: Uint8Array, channel: number) => void;
  readonly onEnd: (status: ExitStatus) => void;
}

/** One exec or attach connection. */
export class ExecConnection {
  private readonly socket: WebSocket;
  private ended = false;

  /** `path` is the Kubernetes path with its query. */
  constructor(clusterName: string, path: string, handlers: ExecHandlers) {
    const client = cluster(clusterName);
    this.socket = new WebSocket(client.socketUrl(`k8s${path}`), client.socketProtocols(PROTOCOL, FALLBACK_PROTOCOL));
    this.socket.binaryType = "arraybuffer";
    const end = (status: ExitStatus): void => {
      if (this.ended) return;
      this.ended = true;
      handlers.onEnd(status);
    };
    this.socket.onopen = () => handlers.onOpen?.();
    this.socket.onmessage = (event: MessageEvent<ArrayBuffer | string>) => {
      const frame = decodeFrame(event.data);
      if (!frame) return;
      if (frame.channel === ERROR) end(parseExit(frame.data));
      else if (frame.channel === STDOUT || frame.channel === STDERR) handlers.onOutput(frame.data, frame.channel);
    };
    this.socket.onclose = (event) => end({ ok: event.code === 1000, exitCode: null, message: event.reason });
  }

  private transmit(frame: Uint8Array<ArrayBuffer>): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(frame);
  }

  write(data: Uint8Array | string): void {
    this.transmit(encodeFrame(STDIN, data));
  }

  resize(columns: number, rows: number): void {
    this.transmit(encodeResize(columns, rows));
  }

  endInput(): void {
    this.transmit(encodeClose(STDIN));
  }

  close(): void {
    this.ended = true;
    this.socket.close();
  }
}

export interface CommandOutput {
  readonly output: Uint8Array;
  readonly errors: string;
  readonly exit: ExitStatus;
  readonly isTruncated: boolean;
}

export function runCommand(
  clusterName: string,
  target: ExecTarget,
  command: readonly string[],
  options: { mostBytes?: number; signal?: AbortSignal; onProgress?: (bytes: number) => void } = {},
): Promise<CommandOutput> {
  const mostBytes = options.mostBytes ?? 4 << 20;
  return new Promise((resolve) => {
    const chunks: Uint8Array[] = [];
    let size = 0;
    let errors = "";
    const finish = (exit: ExitStatus, isTruncated: boolean): void => {
      const output = new Uint8Array(size);
      let offset = 0;
      for (const chunk of chunks) {
        output.set(chunk, offset);
        offset += chunk.length;
      }
      resolve({ output, errors, exit, isTruncated });
    };
    const connection = new ExecConnection(clusterName, execPath(target, command), {
      onOutput: (data, channel) => {
        if (channel === STDERR) {
          if (errors.length < 8192) errors += new TextDecoder().decode(data);
          return;
        }
        chunks.push(data.slice());
        size += data.length;
        options.onProgress?.(size);
        if (size > mostBytes) {
          connection.close();
          finish({ ok: false, exitCode: null, message: "" }, true);
        }
      },
      onEnd: (exit) => finish(exit, false),
    });
    options.signal?.addEventListener("abort", () => {
      connection.close();
      finish({ ok: false, exitCode: null, message: "" }, true);
    });
  });
}
