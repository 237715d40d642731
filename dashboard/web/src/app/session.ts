/** Who is logged in, to which clusters, and when the server ends the session of an idle page. */
import { signal } from "@preact/signals";
import { ApiError, csrfToken, onSessionEnd, request, setCsrf } from "./http";
import { href, location, navigate } from "./router";
import { askToLeave } from "./unsaved";

export interface Cluster {
  readonly name: string;
  readonly current?: boolean;
  readonly version?: string;
  readonly features?: Readonly<Record<string, boolean>>;
}

export interface Session {
  readonly user: { readonly username: string; readonly groups?: readonly string[] };
  readonly csrf: string;
  readonly clusters: readonly Cluster[];
  readonly idleSeconds: number;
  /** What is left of the idle time: other pages of the same session renew it too. */
  readonly remainingSeconds?: number;
  readonly features: Readonly<Record<string, boolean>>;
}

export type Credentials = { readonly token: string } | { readonly kubeconfig: string } | { readonly code: string };
export type LogoutReason = "expired" | "idle" | "chosen";

/** undefined: not known yet; null: nobody is logged in. */
export const session = signal<Session | null | undefined>(undefined);
export const logoutReason = signal<LogoutReason | null>(null);
/** Seconds until the server ends this session, once there is less than a minute left; otherwise null. */
export const idleWarning = signal<number | null>(null);

const WARNING_SECONDS = 60;
let lastActivity = Date.now();

function accept(next: Session): void {
  setCsrf(next.csrf);
  lastActivity = Date.now();
  logoutReason.value = null;
  session.value = next;
}

function end(reason: LogoutReason): void {
  if (session.peek() === null) return;
  const hadSession = Boolean(session.peek());
  session.value = null;
  idleWarning.value = null;
  if (hadSession) logoutReason.value = reason;
}

/** Has the cluster of the address this feature, and may the person use it? */
export function hasFeature(name: string): boolean {
  const { segments } = location.value;
  const cluster = session.value?.clusters.find((candidate) => candidate.name === segments[1]);
  return (cluster?.features ?? session.value?.features)?.[name] === true;
}

export function currentCluster(): string {
  const clusters = session.peek()?.clusters ?? [];
  return (clusters.find((cluster) => cluster.current) ?? clusters[0])?.name ?? "";
}

export async function login(credentials: Credentials): Promise<void> {
  await request<unknown>("login", { method: "POST", body: credentials });
  accept(await request<Session>("session"));
}

export function logout(): void {
  askToLeave(() => void endSession("chosen").then(() => navigate(href(["login"]))));
}

/** Asks whether the session still lives. Another page of the browser may have logged in again meanwhile. */
export async function checkSession(): Promise<void> {
  const next = await request<Session>("session");
  if (!session.peek() || next.csrf === csrfToken()) return;
  setCsrf(next.csrf);
  session.value = next;
}

async function endSession(reason: LogoutReason): Promise<void> {
  // The server also closes the stream, which must not count as another reason.
  onSessionEnd(() => undefined);
  await request<unknown>("logout", { method: "POST", body: {} }).catch(() => undefined);
  end(reason);
  onSessionEnd(() => end("expired"));
}

/** Tells the server that a person is there, which restarts its idle time. */
export async function stayLoggedIn(): Promise<void> {
  await request<unknown>(`clusters/${encodeURIComponent(currentCluster())}/k8s/version`);
  lastActivity = Date.now();
  idleWarning.value = null;
}

/** The one-time code of `sampan dashboard` comes in the fragment, which no log and no Referer shows. */
function takeCode(): string | null {
  const code = /^#code=([\w-]+)$/.exec(window.location.hash)?.[1] ?? null;
  if (code) history.replaceState(null, "", window.location.pathname + window.location.search);
  return code;
}

export async function startSession(): Promise<void> {
  onSessionEnd(() => end("expired"));
  const code = takeCode();
  try {
    if (code) await login({ code });
    else accept(await request<Session>("session"));
  } catch (error) {
    session.value = null;
    if (!(error instanceof ApiError) || error.code !== 401) throw error;
  }
  watchActivity();
}

function watchActivity(): void {
  const note = (): void => {
    if (idleWarning.peek() === null) lastActivity = Date.now();
  };
  for (const name of ["pointerdown", "keydown", "wheel"]) window.addEventListener(name, note, { passive: true });
  let renewedAt = Date.now();
  window.setInterval(() => {
    const current = session.peek();
    if (!current) return;
    const left = Math.ceil(current.idleSeconds - (Date.now() - lastActivity) / 1000);
    if (left <= 0) void endSession("idle");
    else if (left <= WARNING_SECONDS) void warn(left);
    // A person who only reads a live page sends no request: renew while there is activity.
    else if (lastActivity > renewedAt && Date.now() - renewedAt > (current.idleSeconds * 1000) / 6) {
      renewedAt = Date.now();
      void stayLoggedIn().catch(() => undefined);
    }
  }, 1000);
}

/** Shows the notice, unless another page of the same session was used meanwhile. */
async function warn(left: number): Promise<void> {
  if (idleWarning.peek() === null) {
    const { remainingSeconds = left, idleSeconds } = await request<Session>("session");
    if (remainingSeconds > WARNING_SECONDS) {
      lastActivity = Date.now() - (idleSeconds - remainingSeconds) * 1000;
      return;
    }
  }
  idleWarning.value = left;
}
