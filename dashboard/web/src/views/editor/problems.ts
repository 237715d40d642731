/** The server's refusal of a manifest as problems at lines of its text. */
import type { ApiError } from "../../app/http";
import type { Problem } from "./codemirror";
import { lineOfField, positionInMessage } from "./manifest";

export function problemsOf(error: ApiError, text: string, firstLine = 0): Problem[] {
  const causes = error.status.details?.causes ?? [];
  const placed = causes.filter((cause) => cause.field).map((cause) => {
    const line = lineOfField(text, cause.field ?? "");
    return { line: firstLine + Math.max(0, line), message: `${cause.field}: ${cause.message ?? ""}` };
  });
  if (placed.length) return placed;
  const unknown = [...error.message.matchAll(/unknown field "([^"]+)"/g)].map((match) => ({
    line: firstLine + Math.max(0, lineOfField(text, match[1] ?? "")), message: match[0],
  }));
  if (unknown.length) return unknown;
  const position = positionInMessage(error.message);
  return [{ line: firstLine + (position?.line ?? 0), message: error.message }];
}
