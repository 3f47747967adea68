import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { LiveProvider } from "./api/live";
import { isBooth } from "./lib/route";
import { applyTheme, preferredTheme } from "./lib/theme";
import "./styles/tokens.css";
import "./styles/base.css";

applyTheme(preferredTheme());
document.documentElement.toggleAttribute("data-booth", isBooth());
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <LiveProvider>
        <App />
      </LiveProvider>
    </StrictMode>,
  );
}
