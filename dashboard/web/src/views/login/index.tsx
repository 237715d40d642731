/** Log in with a token or a kubeconfig file; the one-time code of `sampan dashboard` needs no form. */
import { useState } from "preact/hooks";
import { asApiError, type ApiError } from "../../app/http";
import { catalog, language, LANGUAGES, setLanguage, type Language } from "../../app/i18n";
import { login, logoutReason } from "../../app/session";
import { Button, ErrorBox, Field, Icon, KubectlHint, Select } from "../../components";

const t = catalog({
  title: ["Log in to the cluster", "登录集群"],
  token: ["Token", "Token"],
  kubeconfig: ["kubeconfig", "kubeconfig"],
  method: ["How to log in", "登录方式"],
  tokenHelp: ["A bearer token of a service account or user. It stays on the server; this page never stores it.", "ServiceAccount 或用户的 bearer token。它只保存在服务器上，页面不会存储。"],
  kubeconfigHelp: ["The content of a kubeconfig file, or drop the file here.", "粘贴 kubeconfig 文件内容，或将文件拖到此处。"],
  file: ["Choose a file", "选择文件"],
  submit: ["Log in", "登录"],
  command: ["Open this page logged in as an administrator:", "以管理员身份直接登录打开此页面："],
  getToken: ["Or get a token for an hour, which may do what the roles of its service account allow:", "或者获取一小时有效的 token，其权限由 ServiceAccount 的角色决定："],
  idle: ["You were logged out because the page was idle.", "由于页面空闲，您已退出登录。"],
  expired: ["The session has ended. Log in again.", "会话已结束，请重新登录。"],
  chosen: ["You are logged out.", "您已退出登录。"],
  language: ["Language", "语言"],
});

type Method = "token" | "kubeconfig";

export default function Login() {
  const [method, setMethod] = useState<Method>("token");
  const [text, setText] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const reason = logoutReason.value;
  const choose = (chosen: Method): void => { setMethod(chosen); setText(""); setError(null); };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await login(method === "token" ? { token: text.trim() } : { kubeconfig: text });
    } catch (failure) {
      setError(asApiError(failure));
      setBusy(false);
    }
  };
  const readFile = async (file: File | undefined): Promise<void> => { if (file) setText(await file.text()); };
  return (
    <main class="login">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <div class="row login-head"><h1>{t("title")}</h1></div>
        {reason && !error && <p class="message neutral" role="status"><Icon name="info" />{t(reason)}</p>}
        <fieldset class="choice">
          <legend class="visually-hidden">{t("method")}</legend>
          {(["token", "kubeconfig"] as const).map((name) => (
            <label key={name}><input type="radio" name="method" checked={method === name} onChange={() => choose(name)} />{t(name)}</label>
          ))}
        </fieldset>
        {method === "token"
          ? <Field label={t("token")} type="password" value={text} onInput={setText} help={t("tokenHelp")} required autofocus />
          : (
            <div onDragOver={(event) => event.preventDefault()} onDrop={(event) => { event.preventDefault(); void readFile(event.dataTransfer?.files[0]); }}>
              <Field label={t("kubeconfig")} type="textarea" rows={9} value={text} onInput={setText} help={t("kubeconfigHelp")} required />
              <label class="button file-button"><input type="file" class="visually-hidden" onChange={(event) => void readFile(event.currentTarget.files?.[0])} />{t("file")}</label>
            </div>
          )}
        {error && <ErrorBox error={error} />}
        <Button look="primary" type="submit" disabled={isBusy || text.trim() === ""}>{t("submit")}</Button>
        <div class="stack login-hints">
          <p class="muted">{t("command")}</p>
          <KubectlHint command="sampan dashboard" />
          <p class="muted">{t("getToken")}</p>
          <KubectlHint command="kubectl create token ACCOUNT -n NAMESPACE" />
        </div>
        <Select label={t("language")} value={language.value} options={LANGUAGES} onChange={(name) => setLanguage(name as Language)} />
      </form>
    </main>
  );
}
