/** The frame around every page. Only the dashboard comes with it; the others are loaded when they are shown, or before that once nothing else is to do. */
import { type ComponentType, Suspense, useEffect } from "preact/compat";
import { Header } from "./components/Header";
import { Notice } from "./components/Notice";
import type { Booth } from "./lib/booth";
import { later, loadAhead } from "./lib/later";
import { useRoute } from "./lib/route";
import { Dashboard } from "./pages/Dashboard";

const page = <Props,>(load: () => Promise<ComponentType<Props>>) => later(load, Unloadable);
const Story = page(async () => (await import("./pages/Story")).Story);
const Conversations = page(async () => (await import("./pages/Conversations")).Conversations);
const ConversationDetail = page(async () => (await import("./pages/ConversationDetail")).ConversationDetail);
const Architecture = page(async () => (await import("./pages/Architecture")).Architecture);
const KvRouting = page(async () => (await import("./pages/KvRouting")).KvRouting);
const Features = page(async () => (await import("./pages/Features")).Features);
const GrafanaView = page(async () => (await import("./pages/GrafanaView")).GrafanaView);

function Unloadable() {
  return <Notice error>This page cannot be loaded. Reload it; if that does not help, the browser's console names the file that the server, or a gateway in front of it, does not serve.</Notice>;
}

/** The first screen goes first. */
const REST_MS = 3000;

export function App({ booth }: { booth: Booth | null }) {
  const route = useRoute();
  useEffect(() => {
    const timer = setTimeout(loadAhead, REST_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <>
      <Header page={route.page} booth={booth} />
      <main id="content" data-page={route.page}>
        <Suspense fallback={<Notice>Loading…</Notice>}>
          {route.page === "dashboard" && <Dashboard />}
          {route.page === "story" && <Story />}
          {route.page === "conversations" && <Conversations />}
          {route.page === "conversation" && <ConversationDetail id={route.id} />}
          {route.page === "architecture" && <Architecture />}
          {route.page === "routing" && <KvRouting />}
          {route.page === "features" && <Features />}
          {route.page === "grafana" && <GrafanaView uid={route.uid} />}
        </Suspense>
      </main>
    </>
  );
}
