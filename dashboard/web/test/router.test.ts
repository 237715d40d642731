import { expect, test } from "vitest";
import { href, parseLocation } from "../src/app/router";
import { findView, matchPath } from "../src/app/routes";
import { views } from "../src/views";

test("an address survives the round trip", () => {
  const address = href(["c", "local", "apps~v1~deployments", "a b", "x/y"], { q: "a&b", sort: "" });
  const [path, search] = address.split("?");
  expect(parseLocation(path ?? "", `?${search}`)).toEqual({ segments: ["c", "local", "apps~v1~deployments", "a b", "x/y"], query: { q: "a&b" } });
});

test("a malformed escape stays as it is", () => {
  expect(parseLocation("/ui/c/%E0%A4%A", "").segments).toEqual(["c", "%E0%A4%A"]);
});

test("parameters match whole segments", () => {
  expect(matchPath("c/:cluster/overview", ["c", "local", "overview"])).toEqual({ cluster: "local" });
  expect(matchPath("c/:cluster/overview", ["c", "local"])).toBeNull();
});

test.each([
  [["login"], "login"],
  [["c", "x", "overview"], "overview"],
  [["c", "x", "~v1~pods"], "list"],
  [["c", "x", "~v1~pods", "default", "a"], "detail"],
  [["c", "x", "~v1~pods", "default", "a", "yaml"], "detail"],
])("%s is shown by %s", (segments, id) => {
  expect(findView(views, segments)?.view.id).toBe(id);
});
