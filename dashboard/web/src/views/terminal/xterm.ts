/**
 * xterm.js with its generated styles as adopted sheets: it writes them to style elements, which the content security
 * policy refuses.
 */
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";

export interface TerminalHandle {
  readonly columns: number;
  readonly rows: number;
  write(data: Uint8Array | string): void;
  fit(): void;
  focus(): void;
  dispose(): void;
}

export interface TerminalOptions {
  readonly label: string;
  readonly onData: (data: string) => void;
  readonly onResize: (columns: number, rows: number) => void;
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Copies the text of style elements below a host into one adopted sheet, as often as they change. */
function adoptStyles(host: HTMLElement): () => void {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  const copy = (): void => sheet.replaceSync([...host.querySelectorAll("style")].map((style) => style.textContent ?? "").join("\n"));
  const observer = new MutationObserver((records) => {
    if (records.some(({ target, addedNodes }) => target instanceof HTMLStyleElement || [...addedNodes].some((node) => node instanceof HTMLStyleElement))) copy();
  });
  observer.observe(host, { childList: true, subtree: true, characterData: true });
  copy();
  return () => {
    observer.disconnect();
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((item) => item !== sheet);
  };
}

export function createTerminal(host: HTMLElement, options: TerminalOptions): TerminalHandle {
  const terminal = new Terminal({
    fontFamily: colour("--mono") || "monospace", fontSize: 13, cursorBlink: false, scrollback: 5000, screenReaderMode: true, allowProposedApi: false,
    theme: {
      background: colour("--surface-sunken"), foreground: colour("--text"), cursor: colour("--accent"), selectionBackground: colour("--surface-selected"),
      red: colour("--bad"), green: colour("--good"), yellow: colour("--warning"), blue: colour("--accent"),
    },
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  const release = adoptStyles(host);
  terminal.open(host);
  terminal.textarea?.setAttribute("aria-label", options.label);
  terminal.onData(options.onData);
  terminal.onBinary(options.onData);
  terminal.onResize(({ cols, rows }) => options.onResize(cols, rows));
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(host);
  fit.fit();
  return {
    get columns() { return terminal.cols; },
    get rows() { return terminal.rows; },
    write: (data) => terminal.write(data),
    fit: () => fit.fit(),
    focus: () => terminal.focus(),
    dispose: () => {
      observer.disconnect();
      terminal.dispose();
      release();
    },
  };
}
