import { expect, test } from "vitest";
import { askToLeave, hasUnsaved, question } from "../src/app/unsaved";

test("without unsaved text there is no question", () => {
  const done: string[] = [];
  askToLeave(() => done.push("left"));
  expect([hasUnsaved(), question.value, done]).toEqual([false, null, ["left"]]);
});
