/** Every write passes here: the live object against the server's dry run, then apply, and a choice when somebody else was faster. */
import { useEffect, useState } from "preact/hooks";
import { asApiError, type ApiError } from "../../app/http";
import { catalog } from "../../app/i18n";
import type { KubernetesObject } from "../../app/kubernetes";
import { Button, Dialog, ErrorBox, KubectlHint, Loading } from "../../components";
import { rememberWrite } from "../actions/undo";
import { review, send, type Review, type Write } from "./apply";
import { DiffView } from "./DiffView";
import { withResourceVersion } from "./manifest";

const t = catalog({
  title: ["Review changes", "检查更改"],
  explain: ["The live object against what the server would store: defaults and webhooks are included.", "当前对象与服务器将保存的内容对比，包含默认值和 webhook 的更改。"],
  create: ["It does not exist yet: this is what the server would create.", "对象尚不存在：以下是服务器将创建的内容。"],
  apply: ["Apply", "应用"],
  createIt: ["Create", "创建"],
  cancel: ["Back", "返回"],
  applying: ["Applying…", "正在应用…"],
  conflictTitle: ["Somebody else has changed the same object", "对象已被他人修改"],
  takeTheirs: ["Keep theirs", "保留对方的"],
  takeTheirsHelp: ["Drops your changes and shows the object as it is now.", "放弃您的更改，显示当前对象。"],
  merge: ["Put mine on top", "合并我的更改"],
  mergeHelp: ["Takes the new version and makes your changes again; you review the result.", "在新版本上重新应用您的更改，再次检查结果。"],
  force: ["Overwrite with mine", "用我的覆盖"],
  forceHelp: ["Their changes to these fields are lost.", "对方对这些字段的更改将丢失。"],
});

export interface ReviewDialogProps {
  readonly writes: readonly Write[];
  readonly command: string;
  readonly onClose: () => void;
  readonly onDone: (objects: readonly KubernetesObject[]) => void;
  /** Makes the person's changes again on top of the live object; absent where that is not possible. */
  readonly onMerge?: () => void;
  /** Drops the person's changes. */
  readonly onTakeTheirs?: () => void;
}

interface ReviewState {
  readonly review?: Review;
  readonly error?: ApiError;
}

export function ReviewDialog({ writes, command, onClose, onDone, onMerge, onTakeTheirs }: ReviewDialogProps) {
  const [states, setStates] = useState<readonly ReviewState[]>([]);
  const [current, setCurrent] = useState(writes);
  const [isApplying, setApplying] = useState(false);
  const [failure, setFailure] = useState<ApiError | null>(null);

  useEffect(() => {
    let isCurrent = true;
    void Promise.all(current.map((write) => review(write).then((value): ReviewState => ({ review: value }), (reason: unknown): ReviewState => ({ error: asApiError(reason) })))).then(
      (all) => { if (isCurrent) setStates(all); });
    return () => { isCurrent = false; };
  }, [current]);

  const conflict = failure?.code === 409 ? failure : states.find((state) => state.error?.code === 409)?.error;
  const isReady = states.length > 0 && states.every((state) => state.review);
  const allNew = isReady && states.every((state) => !state.review?.live);

  const apply = async () => {
    setApplying(true);
    setFailure(null);
    const done: KubernetesObject[] = [];
    try {
      for (const [index, write] of current.entries()) {
        const object = await send(write, false);
        rememberWrite(write, states[index]?.review?.live ?? null, object);
        done.push(object);
      }
      onDone(done);
    } catch (reason) {
      setFailure(asApiError(reason));
    } finally {
      setApplying(false);
    }
  };

  const overwrite = async () => {
    setFailure(null);
    setStates([]);
    setCurrent(current.map((write) => (write.method === "apply" ? { ...write, force: true } : { ...write, text: withResourceVersion(write.text, "") })));
  };

  return (
    <Dialog title={t("title")} size="large" onClose={onClose} footer={
      <>
        <Button onClick={onClose}>{t("cancel")}</Button>
        <Button look="primary" disabled={!isReady || isApplying || Boolean(conflict)} onClick={() => void apply()}>
          {isApplying ? t("applying") : allNew ? t("createIt") : t("apply")}
        </Button>
      </>
    }>
      {conflict && (
        <section class="stack" aria-labelledby="conflict-title">
          <div class="message warning" role="alert"><div><strong id="conflict-title">{t("conflictTitle")}</strong><p>{conflict.message}</p></div></div>
          <div class="choices">
            {onTakeTheirs && <Choice label={t("takeTheirs")} help={t("takeTheirsHelp")} onClick={onTakeTheirs} />}
            {onMerge && <Choice label={t("merge")} help={t("mergeHelp")} onClick={onMerge} />}
            <Choice label={t("force")} help={t("forceHelp")} isDanger onClick={() => void overwrite()} />
          </div>
        </section>
      )}
      {failure && failure.code !== 409 && <ErrorBox error={failure} />}
      {states.length === 0 ? <Loading /> : (
        <div class="review-list">
          {states.map((state, index) => {
            const write = current[index]!;
            return (
              <section key={index} class="review-item">
                {current.length > 1 && <h3>{write.resource.kind} {write.namespace ? `${write.namespace}/` : ""}{write.name}</h3>}
                {state.error && state.error.code !== 409 && <ErrorBox error={state.error} />}
                {state.review && (
                  <>
                    <p class="muted">{state.review.live ? t("explain") : t("create")}</p>
                    <DiffView before={state.review.before} after={state.review.after} />
                  </>
                )}
              </section>
            );
          })}
        </div>
      )}
      <KubectlHint command={command} />
    </Dialog>
  );
}

function Choice({ label, help, isDanger, onClick }: { label: string; help: string; isDanger?: boolean; onClick: () => void }) {
  return (
    <div class="conflict-choice">
      <Button look={isDanger ? "danger" : "plain"} onClick={onClick}>{label}</Button>
      <span class="muted">{help}</span>
    </div>
  );
}
