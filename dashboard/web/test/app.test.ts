import { expect, test } from "vitest";
import { interpolate } from "../src/app/i18n";
import { matchesLabels } from "../src/app/kubernetes";
import { readDiscovery, ResourceCatalog, sectionOf, updatedCatalog } from "../src/app/resources";
import { keyName, matchKeys, type Shortcut } from "../src/app/shortcuts";
import { formatDuration } from "../src/app/time";
import { statusLevel } from "../src/components/Status";
import { visibleRows } from "../src/components/Table";

test.each([[0, "0s"], [119, "119s"], [125, "2m5s"], [600, "10m"], [3 * 3600 + 60, "3h1m"], [50 * 3600, "2d2h"], [400 * 86400, "400d"]])("%d seconds are %s", (seconds, text) => {
  expect(formatDuration(seconds)).toBe(text);
});

test("numbers choose singular or plural", () => {
  expect(interpolate("{n} {n|pod|pods} in {ns}", { n: 1, ns: "x" })).toBe("1 pod in x");
  expect(interpolate("{n} {n|pod|pods}", { n: 2 })).toBe("2 pods");
});

test.each([["Running", "good"], ["CrashLoopBackOff", "bad"], ["Pending", "progress"], ["NotReady", "bad"], ["Ready,SchedulingDisabled", "warning"], ["v1", "neutral"]])("%s is %s", (text, level) => {
  expect(statusLevel(text)).toBe(level);
});

test("only rows near the viewport are drawn", () => {
  expect(visibleRows(0, 330, 33, 10_000)).toEqual({ first: 0, last: 28 });
  const { first, last } = visibleRows(33 * 5000, 330, 33, 10_000);
  expect(first).toBeLessThanOrEqual(5000);
  expect(last - first).toBeLessThan(60);
  expect(visibleRows(33 * 9990, 330, 33, 10)).toEqual({ first: 10, last: 10 });
});

test("discovery keeps the preferred version and knows sections", () => {
  const resource = (name: string, kind: string) => ({ resource: name, responseKind: { kind }, scope: "Namespaced", verbs: ["list"] });
  const resources = readDiscovery([
    { versions: [{ version: "v1", resources: [resource("pods", "Pod")] }] },
    { metadata: { name: "example.com" }, versions: [{ version: "v2", resources: [resource("boats", "Boat")] }, { version: "v1", resources: [resource("boats", "Boat")] }] },
  ]);
  const kinds = new ResourceCatalog(resources);
  expect(kinds.byKind("example.com/v1", "Boat")?.version).toBe("v2");
  expect(resources.map(sectionOf)).toEqual(["workloads", "custom"]);
  const [pods, boats] = structuredClone(resources);
  expect(updatedCatalog(kinds, [pods!, boats!])).toBe(kinds);
  const changed = updatedCatalog(kinds, [pods!, { ...boats!, version: "v3" }]);
  expect(changed.all[0]).toBe(resources[0]);
  expect(changed.all[1]?.version).toBe("v3");
});

test("an empty selector selects nothing", () => {
  expect(matchesLabels({}, { a: "b" })).toBe(false);
  expect(matchesLabels({ a: "b" }, { a: "b", c: "d" })).toBe(true);
});

test("keys in a row make one shortcut", () => {
  const shortcut: Shortcut = { keys: "g p", label: () => "", run: () => undefined };
  expect(matchKeys("g", [shortcut])).toEqual({ complete: undefined, isPrefix: true });
  expect(matchKeys("g p", [shortcut]).complete).toBe(shortcut);
  expect(keyName({ key: "k", ctrlKey: true, metaKey: false, altKey: false })).toBe("Ctrl+k");
});
