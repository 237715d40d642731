import { expect, test } from "vitest";
import type { TableColumn } from "../src/app/kubernetes";
import type { Row } from "../src/app/stream";
import { columnWidth } from "../src/views/list/columns";
import { LiveRows, searchFilter, sortKey, type RowSettings } from "../src/views/list/rows";

const row = (name: string, status = "Running"): Row => ({ key: `x/${name}`, uid: name, cells: [name, status], metadata: { labels: { app: "web" } } });
const byName: RowSettings = { sortKeyOf: (candidate) => candidate.key, descending: false, matches: () => true };
const names = (rows: LiveRows): string[] => rows.shown.map((live) => live.row.uid);

test("rows hold their place until they settle", () => {
  const rows = new LiveRows({ ...byName, sortKeyOf: (candidate) => String(candidate.cells[1]) });
  rows.replace([row("a", "1"), row("b", "2"), row("c", "3")]);
  rows.apply([["PUT", row("a", "9")], ["DELETE", "x/b"], ["PUT", row("d", "0")]]);
  expect(names(rows)).toEqual(["a", "b", "c"]);
  expect(rows.shown[1]?.isDeleted).toBe(true);
  expect(rows.waiting).toBe(1);
  rows.settle();
  expect(names(rows)).toEqual(["d", "c", "a"]);
  expect(rows.isSettled).toBe(true);
});

test("a row that is deleted and created again is shown once", () => {
  const rows = new LiveRows(byName);
  rows.replace([row("a"), row("b")]);
  rows.apply([["DELETE", "x/a"]]);
  rows.apply([["PUT", row("a")]]);
  rows.settle();
  expect(names(rows)).toEqual(["a", "b"]);
  expect(rows.shown[0]?.isDeleted).toBe(false);
});

test("merged rows are in the order of a full sort", () => {
  const rows = new LiveRows(byName);
  const all = Array.from({ length: 500 }, (_, index) => row(`p${(index * 7919) % 1000}`));
  rows.replace(all.slice(0, 300));
  rows.apply(all.slice(300).map((added) => ["PUT", added] as const));
  rows.settle();
  const merged = names(rows);
  const fresh = new LiveRows(byName);
  fresh.replace(all);
  expect(merged).toEqual(names(fresh));
});

test("rows that no longer match leave when they settle", () => {
  const columns: TableColumn[] = [{ name: "Name", type: "string" }, { name: "Status", type: "string" }];
  const rows = new LiveRows({ ...byName, matches: searchFilter("status:running", columns) });
  rows.replace([row("a"), row("b", "Pending")]);
  expect(names(rows)).toEqual(["a"]);
  rows.apply([["PUT", row("a", "Failed")]]);
  expect(names(rows)).toEqual(["a"]);
  rows.settle();
  expect(names(rows)).toEqual([]);
});

test.each([["web -x/b", ["a"]], ["app=web", ["a", "b"]], ['"x/a"', ["a"]], ["nothing", []]])("the search %s", (search, expected) => {
  const rows = new LiveRows({ ...byName, matches: searchFilter(search, []) });
  rows.replace([row("a"), row("b")]);
  expect(names(rows)).toEqual(expected);
});

test.each([["3 (5m ago)", 3], ["1/2", 0.5], ["2Gi", 2 ** 31], ["1d2h", 93_600], ["12", 12], ["abc", "abc"], [null, ""]])("%s sorts as %s", (cell, key) => {
  expect(sortKey(cell)).toBe(key);
});

test("a column is as wide as its cells", () => {
  expect(columnWidth("Age", ["5m"], 36)).toBe("minmax(68px, 7fr)");
});
