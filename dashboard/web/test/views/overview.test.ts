import { describe, expect, it } from "vitest";
import { type UnreadableKind, unreadOf, verdict } from "../../src/views/overview/model";

const unread = (resource: string, forbidden = true): UnreadableKind => ({ resource, forbidden, message: "no" });

describe("verdict", () => {
  const complete = { isComplete: true, problems: [], unreadable: [] };

  it("says that all is well only where everything was read", () => {
    expect(verdict(complete)).toBe("well");
    expect(verdict({ ...complete, isComplete: false })).toBe("counting");
    expect(verdict({ ...complete, unreadable: [unread("nodes")] })).toBe("partly");
    expect(verdict({ ...complete, unreadable: [unread("jobs", false)] })).toBe("partly");
    expect(verdict({ ...complete, unreadable: [unread("nodes"), unread("pods")] })).toBe("unknown");
  });

  it("leaves out events, which repeat what other kinds tell", () => {
    expect(verdict({ ...complete, unreadable: [unread("events")] })).toBe("well");
    expect(unreadOf({ unreadable: [unread("events"), unread("pods")] }).map((kind) => kind.resource)).toEqual(["pods"]);
  });
});
