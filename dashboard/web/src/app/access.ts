/** What RBAC allows: one SelfSubjectAccessReview per question, asked once a minute at most, several questions at a time. */
import { signal, type Signal } from "@preact/signals";
import { cluster } from "./http";
import { catalog } from "./i18n";
import { session } from "./session";

const t = catalog({
  denied: ["User “{user}” may not {verb} {resource}{place}.", "用户“{user}”无权对 {resource}{place} 执行 {verb}。"],
  place: [" in namespace “{namespace}”", "（namespace “{namespace}”）"],
});

export interface AccessQuestion {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

export interface Access {
  /** undefined while the review is under way: show the action, but do not run it. */
  readonly allowed: boolean | undefined;
  /** Why not, for people. */
  readonly reason: string;
}

interface ReviewStatus {
  readonly allowed?: boolean;
  readonly reason?: string;
}

const LIFETIME_MS = 60_000;
const reviews = new Map<string, { readonly askedAt: number; readonly access: Signal<Access> }>();

/** The answer as a signal that is filled in when the review returns. Read it inside a component. */
export function access(clusterName: string, question: AccessQuestion): Signal<Access> {
  const key = JSON.stringify([clusterName, question.verb, question.group, question.resource, question.subresource, question.namespace, question.name]);
  const known = reviews.get(key);
  if (known && Date.now() - known.askedAt < LIFETIME_MS) return known.access;
  const state = known?.access ?? signal<Access>({ allowed: undefined, reason: "" });
  reviews.set(key, { askedAt: Date.now(), access: state });
  void review(clusterName, question).then((result) => {
    state.value = result;
  });
  return state;
}

export function forgetAccess(): void {
  reviews.clear();
}

async function review(clusterName: string, question: AccessQuestion): Promise<Access> {
  const { resource, ...rest } = question;
  const body = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectAccessReview",
    spec: { resourceAttributes: { ...rest, resource } },
  };
  try {
    const result = await cluster(clusterName).k8s<{ status?: ReviewStatus }>(
      "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", { method: "POST", body });
    if (result.status?.allowed) return { allowed: true, reason: "" };
    return { allowed: false, reason: [denial(question), result.status?.reason].filter(Boolean).join(" ") };
  } catch {
    return { allowed: true, reason: "" }; // Reviews are not served: let the request itself be refused.
  }
}

function denial(question: AccessQuestion): string {
  return t("denied", {
    user: session.peek()?.user.username ?? "",
    verb: question.verb,
    resource: [question.group ? `${question.resource}.${question.group}` : question.resource, question.subresource].filter(Boolean).join("/"),
    place: question.namespace ? t("place", { namespace: question.namespace }) : "",
  });
}
