/** The frame around every page. */
import { Header } from "./components/Header";
import type { Booth } from "./lib/booth";
import { useRoute } from "./lib/route";
import { Architecture } from "./pages/Architecture";
import { ConversationDetail } from "./pages/ConversationDetail";
import { Conversations } from "./pages/Conversations";
import { Dashboard } from "./pages/Dashboard";
import { Features } from "./pages/Features";
import { GrafanaView } from "./pages/GrafanaView";
import { KvRouting } from "./pages/KvRouting";
import { Story } from "./pages/Story";

export function App({ booth }: { booth: Booth | null }) {
  const route = useRoute();
  return (
    <>
      <Header page={route.page} booth={booth} />
      <main id="content" data-page={route.page}>
        {route.page === "dashboard" && <Dashboard />}
        {route.page === "story" && <Story />}
        {route.page === "conversations" && <Conversations />}
        {route.page === "conversation" && <ConversationDetail id={route.id} />}
        {route.page === "architecture" && <Architecture />}
        {route.page === "routing" && <KvRouting />}
        {route.page === "features" && <Features />}
        {route.page === "grafana" && <GrafanaView uid={route.uid} />}
      </main>
    </>
  );
}
