import { describe, expect, it } from "vitest";
import { countChanges, diffLines, diffSequence, foldUnchanged } from "../../src/views/editor/diff";
import {
  identify,
  lineOfField,
  positionInMessage,
  splitDocuments,
  withoutManagedFields,
  withoutServerFields,
  withResourceVersion,
} from "../../src/views/editor/manifest";
import { merge } from "../../src/views/editor/merge";
import { Echoes } from "../../src/views/editor/YamlEditor";

function rebuilt(before: string[], after: string[]): [string[], string[]] {
  const edits = diffSequence(before, after);
  return [
    edits.filter(([change]) => change !== "add").map(([, text]) => text),
    edits.filter(([change]) => change !== "remove").map(([, text]) => text),
  ];
}

describe("diff", () => {
  it("finds the shortest edit of changed lines", () => {
    const lines = diffLines("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n");
    expect(lines.map((line) => `${line.change[0]}${line.text}`)).toEqual(["sa", "rb", "ax", "sc", "sd", "ae"]);
    expect(countChanges(lines)).toEqual({ added: 2, removed: 1 });
    expect(lines[2]).toMatchObject({ before: 0, after: 2 });
  });

  it("rebuilds both sides for many random texts", () => {
    let seed = 7;
    const random = (most: number): number => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) % most;
    for (let round = 0; round < 300; round += 1) {
      const make = (): string[] => Array.from({ length: random(14) }, () => "abcd"[random(4)]!);
      const [before, after] = [make(), make()];
      expect(rebuilt(before, after)).toEqual([before, after]);
    }
  });

  it("folds what did not change", () => {
    const before = Array.from({ length: 40 }, (_, index) => `line ${index}`);
    const after = before.with(20, "changed");
    const folded = foldUnchanged(diffLines(before.join("\n"), after.join("\n")));
    expect(folded.map((line) => line.change)).toEqual(["fold", "same", "same", "same", "remove", "add", "same", "same", "same", "fold"]);
  });

  it("is empty for equal texts", () => {
    expect(countChanges(diffLines("a\n", "a\n"))).toEqual({ added: 0, removed: 0 });
  });
});

describe("merge", () => {
  const base = "a\nb\nc\nd\ne\n";

  it("takes both sides where they changed different lines", () => {
    expect(merge(base, "a\nB\nc\nd\ne\n", "a\nb\nc\nd\nE\n")).toEqual({ text: "a\nB\nc\nd\nE\n", conflicts: 0 });
  });

  it("takes both sides where they changed neighbouring lines", () => {
    expect(merge(base, "a\nB\nc\nd\ne\n", "a\nb\nC\nd\ne\n")).toEqual({ text: "a\nB\nC\nd\ne\n", conflicts: 0 });
  });

  it("marks lines that both changed", () => {
    const result = merge(base, "a\nmine\nc\nd\ne\n", "a\ntheirs\nc\nd\ne\n");
    expect(result.conflicts).toBe(1);
    expect(result.text).toBe("a\n<<<<<<< mine\nmine\n=======\ntheirs\n>>>>>>> server\nc\nd\ne\n");
  });

  it("takes an equal change once, and one side alone as it is", () => {
    expect(merge(base, "a\nX\nc\nd\ne\n", "a\nX\nc\nd\ne\n")).toEqual({ text: "a\nX\nc\nd\ne\n", conflicts: 0 });
    expect(merge(base, base, "a\nc\nd\ne\nf\n").text).toBe("a\nc\nd\ne\nf\n");
    expect(merge(base, "new\n" + base, base).text).toBe("new\n" + base);
  });
});

const POD = `apiVersion: v1
kind: Pod
metadata:
  name: "web"
  namespace: shop # a comment
  labels:
    name: other
  managedFields:
  - manager: kubectl
    fieldsV1:
      f:spec: {}
  resourceVersion: "7"
  uid: abc
spec:
  containers:
  - name: web
    image: nginx
    ports:
    - containerPort: 80
  - image: sidecar
    name: side
status:
  phase: Running
`;

describe("manifest", () => {
  it("splits documents and names their objects", () => {
    const documents = splitDocuments(`# only a comment\n---\n${POD}---\n{"kind":"Service","apiVersion":"v1","metadata":{"name":"s"}}\n`);
    expect(documents.map((document) => document.identity)).toEqual([
      { apiVersion: "v1", kind: "Pod", name: "web", namespace: "shop" },
      { apiVersion: "v1", kind: "Service", name: "s", namespace: "" },
    ]);
    expect(documents[0]?.line).toBe(2);
  });

  it("reads metadata in flow style", () => {
    expect(identify("kind: A\napiVersion: b/v1\nmetadata: {name: n, namespace: 'm'}\n")).toEqual({
      apiVersion: "b/v1", kind: "A", name: "n", namespace: "m",
    });
  });

  it("leaves out managed fields and what the server writes", () => {
    expect(withoutManagedFields(POD)).not.toContain("kubectl");
    expect(withoutManagedFields(POD)).toContain('  resourceVersion: "7"\n  uid: abc\nspec:');
    const again = withoutServerFields(POD);
    expect(again).not.toMatch(/resourceVersion|uid|status|phase/);
    expect(again.endsWith("name: side\n")).toBe(true);
    expect(withResourceVersion(POD, "9")).toContain('metadata:\n  resourceVersion: "9"\n  name: "web"');
  });

  it("finds the line of a field path", () => {
    const line = (path: string): string => POD.split("\n")[lineOfField(POD, path)]!.trim();
    expect(line("spec.containers[0].image")).toBe("image: nginx");
    expect(line("spec.containers[1].name")).toBe("name: side");
    expect(line("spec.containers[1].image")).toBe("- image: sidecar");
    expect(line("spec.containers[0].ports[0].containerPort")).toBe("- containerPort: 80");
    expect(line("metadata.labels")).toBe("labels:");
    expect(line("spec.containers[0].resources.limits")).toBe("- name: web");
    expect(lineOfField(POD, "nowhere")).toBe(-1);
  });

  it("reads the position of a parser's message", () => {
    expect(positionInMessage("yaml: line 4: did not find expected key")).toEqual({ line: 3, column: 0 });
    expect(positionInMessage("no position")).toBeNull();
  });
});

describe("echoes", () => {
  it("are typed texts that come back, also late and with some left out", () => {
    const echoes = new Echoes();
    for (const text of ["a", "ab", "abc"]) echoes.note(text);
    expect(echoes.isEcho("ab")).toBe(true);
    expect(echoes.isEcho("abc")).toBe(true);
    expect(echoes.isEcho("another object")).toBe(false);
  });
});
