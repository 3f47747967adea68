/** A Prometheus of our own on a free port, with the shipped configuration, in front of a demo. */
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { until } from "./pages";

const SHIPPED = resolve(import.meta.dirname, "../../dashboards/prometheus");

export type Prometheus = { stop(): Promise<void> };

/** Free now; nobody else is likely to take it in the moment until somebody is told. */
export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => (address && typeof address === "object" ? resolve(address.port) : reject(new Error("no port"))));
    });
  });

/** Replaces what has to be there. */
function changed(text: string, old: string, by: string): string {
  if (!text.includes(old)) throw new Error(`the configuration has to say ${old}`);
  return text.replace(old, by);
}

/** Starts one that asks the server at `target`, such as `127.0.0.1:8000`, every second. */
export async function startPrometheus(port: number, target: string): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), "homing-prometheus-"));
  cpSync(join(SHIPPED, "rules"), join(folder, "rules"), { recursive: true });
  const shipped = changed(readFileSync(join(SHIPPED, "demo.yml"), "utf8"), "127.0.0.1:8000", target);
  const hurried = changed(changed(shipped, "scrape_interval: 5s", "scrape_interval: 1s"), "evaluation_interval: 5s", "evaluation_interval: 1s");
  const file = join(folder, "prometheus.yml");
  writeFileSync(file, hurried);
  const options = [`--config.file=${file}`, `--storage.tsdb.path=${join(folder, "data")}`, `--web.listen-address=127.0.0.1:${port}`];
  const child = spawn("prometheus", options, { stdio: "ignore" });
  let over: string | null = null;
  const ended = new Promise<void>((resolve) => {
    child.once("error", (error) => resolve(void (over = String(error))));
    child.once("exit", (code) => resolve(void (over = `ended with ${code}`)));
  });
  await until(async () => {
    if (over !== null) throw new Error(`prometheus: ${over}`);
    return fetch(`http://127.0.0.1:${port}/-/ready`).then((answer) => answer.ok, () => false);
  });
  return {
    stop: async () => {
      child.kill("SIGTERM");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
