/** The page: nobody logged in, or the shell with the view of the address. */
import { useSignalEffect } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Empty, Loading } from "../components";
import { views } from "../views";
import { catalog } from "./i18n";
import { Lazy } from "./lazy";
import Palette from "./Palette";
import { href, location, navigate } from "./router";
import { findView } from "./routes";
import { currentCluster, session } from "./session";
import { isPaletteOpen, Shell } from "./Shell";
import { closeStreams } from "./stream";
import { forgetAccess } from "./access";
import { forgetDiscovery } from "./resources";

const t = catalog({
  noView: ["There is no such page", "页面不存在"],
  home: ["Go to the overview", "前往概览"],
  noCluster: ["There is no cluster {name} here", "这里没有集群 {name}"],
});

export function App() {
  const { segments, query } = location.value;
  const current = session.value;
  useSignalEffect(() => {
    if (session.value === null) {
      closeStreams();
      forgetAccess();
      forgetDiscovery();
    }
  });
  const isHome = segments.length === 0 || segments[0] === "login" || (segments[0] === "c" && segments.length <= 2);
  useEffect(() => {
    if (current && isHome) navigate(query["next"]?.startsWith("/ui/c/") ? query["next"] : href(["c", segments[1] ?? currentCluster(), "overview"]), { replace: true });
  }, [current, isHome]);

  if (current === undefined) return <main class="start"><Loading rows={3} /></main>;
  const login = views.find((view) => view.id === "login");
  if (current === null) return login ? <Lazy load={login.load} props={{ cluster: "", params: {}, query }} /> : null;
  const match = findView(views, segments);
  const named = match?.params["cluster"];
  const isKnown = named === undefined || current.clusters.some(({ name }) => name === named);
  const cluster = named !== undefined && isKnown ? named : currentCluster();
  return (
    <Shell cluster={cluster} view={match?.view ?? null}>
      {!isKnown && !isHome && <Empty title={t("noCluster", { name: named ?? "" })}><a href={href(["c", cluster, "overview"])}>{t("home")}</a></Empty>}
      {match && isKnown && !isHome
        ? <Lazy key={`${match.view.id}/${cluster}`} load={match.view.load} props={{ cluster, params: match.params, query }} />
        : isKnown && !isHome && <Empty title={t("noView")}><a href={href(["c", cluster, "overview"])}>{t("home")}</a></Empty>}
      {isPaletteOpen.value && <Palette cluster={cluster} onClose={() => { isPaletteOpen.value = false; }} />}
    </Shell>
  );
}
