/** The question before unsaved text is left. */
import { Button, Dialog } from "../components";
import { catalog } from "./i18n";
import { question } from "./unsaved";

const t = catalog({
  title: ["Leave without saving?", "不保存就离开？"],
  text: ["What you typed on this page has not been sent to the cluster and would be lost.", "您在此页面输入的内容尚未提交到集群，离开后将丢失。"],
  stay: ["Stay", "留下"],
  leave: ["Discard and leave", "放弃并离开"],
});

export function LeaveQuestion() {
  const asked = question.value;
  if (!asked) return null;
  return (
    <Dialog title={t("title")} size="small" onClose={asked.stay} footer={
      <>
        <Button look="danger" onClick={asked.leave}>{t("leave")}</Button>
        <Button look="primary" onClick={asked.stay}>{t("stay")}</Button>
      </>
    }>
      <p>{t("text")}</p>
    </Dialog>
  );
}
