import { render } from "preact";
import "./style/tokens.css";
import "./style/base.css";
import "./style/components.css";
import "./style/shell.css";
import "./style/views.css";
import "./app/theme";
import { App } from "./app/App";
import { startRouter } from "./app/router";
import { startShortcuts } from "./app/shortcuts";
import { startSession } from "./app/session";
import { startUnsavedGuard } from "./app/unsaved";

startRouter();
startShortcuts();
startUnsavedGuard();
void startSession().catch(() => undefined);
const root = document.getElementById("app");
if (root) render(<App />, root);
