/** A YAML editor with completion, hover texts and problems from the server; a plain text area until CodeMirror has loaded. */
import { useEffect, useRef, useState } from "preact/hooks";
import { cluster } from "../../app/http";
import type { EditorHandle, Problem, SchemaHelp } from "./codemirror";
import "./editor.css";

export interface YamlEditorProps {
  readonly cluster: string;
  readonly label: string;
  readonly text: string;
  readonly onChange: (text: string) => void;
  readonly problems?: readonly Problem[];
  readonly isReadOnly?: boolean;
  readonly isSmall?: boolean;
}

interface ServerCompletion {
  readonly label: string;
  readonly type?: string;
  readonly detail?: string;
  readonly description?: string;
  readonly documentation?: string;
  readonly insert?: string;
}

interface CompleteResponse {
  readonly from?: number;
  readonly completions?: readonly ServerCompletion[];
  readonly items?: readonly ServerCompletion[];
  readonly hover?: string | { readonly path?: string; readonly type?: string; readonly description?: string; readonly text?: string } | null;
}

async function ask(clusterName: string, text: string, offset: number): Promise<CompleteResponse | null> {
  try {
    return await cluster(clusterName).computed<CompleteResponse>("complete", { method: "POST", body: { text, offset } });
  } catch {
    return null; // Help is a convenience: the editor works without it.
  }
}

export async function completionsAt(clusterName: string, text: string, offset: number): Promise<SchemaHelp | null> {
  const response = await ask(clusterName, text, offset);
  const items = response?.completions ?? response?.items;
  if (!items) return null;
  const typed = /[\w./-]*$/.exec(text.slice(0, offset))?.[0].length ?? 0;
  return {
    from: response?.from ?? offset - typed,
    completions: items.map((item) => ({
      label: item.label,
      detail: item.detail ?? item.type ?? "",
      description: item.description ?? item.documentation ?? "",
      insert: item.insert ?? item.label,
    })),
  };
}

export async function descriptionAt(clusterName: string, text: string, offset: number): Promise<string> {
  const hover = (await ask(clusterName, text, offset))?.hover;
  if (!hover) return "";
  if (typeof hover === "string") return hover;
  const head = [hover.path, hover.type].filter(Boolean).join("  ");
  return [head, hover.description ?? hover.text].filter(Boolean).join("\n\n");
}

/**
 * Tells texts that the page sets from those that come back to the editor, perhaps late, because the person typed them.
 * To write a late one into the editor would undo what was typed since.
 */
export class Echoes {
  private typed: string[] = [];

  note(text: string): void {
    this.typed.push(text);
  }

  isEcho(text: string): boolean {
    const index = this.typed.lastIndexOf(text);
    this.typed = index < 0 ? [] : this.typed.slice(index + 1);
    return index >= 0;
  }
}

export function YamlEditor(props: YamlEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const handle = useRef<EditorHandle | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [isLoaded, setLoaded] = useState(false);
  const echoes = useRef(new Echoes());

  useEffect(() => {
    let isCurrent = true;
    void import("./codemirror").then(({ createEditor }) => {
      if (!isCurrent || !host.current) return;
      handle.current = createEditor(host.current, {
        text: latest.current.text,
        label: latest.current.label,
        isReadOnly: latest.current.isReadOnly ?? false,
        onChange: (text) => {
          echoes.current.note(text);
          latest.current.onChange(text);
        },
        complete: (text, offset) => completionsAt(latest.current.cluster, text, offset),
        describe: (text, offset) => descriptionAt(latest.current.cluster, text, offset),
      });
      handle.current.setProblems(latest.current.problems ?? []);
      setLoaded(true);
    });
    return () => {
      isCurrent = false;
      handle.current?.destroy();
      handle.current = null;
    };
  }, []);

  useEffect(() => { if (!echoes.current.isEcho(props.text)) handle.current?.setText(props.text); }, [props.text]);
  useEffect(() => handle.current?.setProblems(props.problems ?? []), [props.problems]);

  return (
    <>
      <div ref={host} class={`yaml-editor ${props.isSmall ? "small" : ""}`} hidden={!isLoaded} data-editor="codemirror" />
      {!isLoaded && (
        <textarea class={`yaml-editor ${props.isSmall ? "small" : ""}`} aria-label={props.label} value={props.text} readOnly={props.isReadOnly ?? false} spellcheck={false}
          onInput={(event) => props.onChange(event.currentTarget.value)} />
      )}
    </>
  );
}
