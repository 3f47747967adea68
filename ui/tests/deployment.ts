/** A deployed system on free ports: etcd, NATS, three workers, a frontend with its console, and a load generator elsewhere. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { until } from "./pages";
import { freePort } from "./prometheus";

/** What whoever presents types once. */
export const TOKEN = "of-the-booth";

export type Deployment = {
  /** Such as http://127.0.0.1:40321 */
  console: string;
  /** Ends the load generator alone. */
  loseLoad(): Promise<void>;
  stop(): Promise<void>;
};

const START_PATIENCE_MS = 60_000;

class Process {
  private readonly ended: Promise<void>;

  private constructor(private readonly child: ChildProcess) {
    this.ended = new Promise((resolve) => child.once("exit", () => resolve()));
  }

  static start(program: string, words: string[], environment: Record<string, string> = {}): Process {
    return new Process(spawn(program, words, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...environment } }));
  }

  /** Waits until it prints what `pattern` finds, and returns its first group. */
  printed(pattern: RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const said: string[] = [];
      const fail = (why: string) => reject(new Error(`${this.child.spawnargs.slice(0, 3).join(" ")}: ${why}: ${said.join("\n")}`));
      const timer = setTimeout(() => fail("printed no address"), START_PATIENCE_MS);
      this.child.once("error", (error) => fail(String(error)));
      this.child.once("exit", (code) => fail(`ended with ${code}`));
      for (const stream of [this.child.stdout, this.child.stderr]) {
        if (!stream) throw new Error("both outputs are piped");
        // Reads to the end even when nobody listens: a full pipe would block the program.
        createInterface(stream).on("line", (line) => {
          said.push(line);
          const found = pattern.exec(line)?.[1];
          if (found !== undefined) {
            clearTimeout(timer);
            resolve(found);
          }
        });
      }
    });
  }

  async stop(): Promise<void> {
    this.child.kill("SIGTERM");
    const patience = setTimeout(() => this.child.kill("SIGKILL"), 20_000);
    await this.ended;
    clearTimeout(patience);
  }
}

/** With what whoever deploys it says of it. */
export async function deploy(program: string, options: string[]): Promise<Deployment> {
  const folder = mkdtempSync(join(tmpdir(), "homing-deployment-"));
  const [nats, client, peer] = [await freePort(), await freePort(), await freePort()];
  const etcd = `http://127.0.0.1:${client}`;
  const servers = [
    Process.start("nats-server", ["-a", "127.0.0.1", "-p", String(nats)]),
    Process.start("etcd", [
      "--data-dir", join(folder, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
      "--listen-peer-urls", `http://127.0.0.1:${peer}`, "--initial-advertise-peer-urls", `http://127.0.0.1:${peer}`, "--initial-cluster", `default=http://127.0.0.1:${peer}`,
    ]),
  ];
  await until(() => fetch(`${etcd}/health`).then((answer) => answer.ok, () => false));
  const found = ["--discovery", "etcd", "--etcd", etcd];
  const events = `nats://127.0.0.1:${nats}`;
  const workers = ["worker-0", "worker-1", "worker-2"].map((name, id) =>
    Process.start(program, ["worker", "--port", "0", "--name", name, "--worker-id", String(id), "--events", "nats", "--nats", events, ...found]));
  await Promise.all(workers.map((worker) => worker.printed(/^\s*address\s+(\S+)/)));
  // The load generator asks what is served, and the console is told where the load generator is.
  const [http, load] = [await freePort(), await freePort()];
  const frontend = Process.start(
    program,
    ["frontend", "--http-port", String(http), "--console-port", "0", "--nats", events, ...found, "--load", `http://127.0.0.1:${load}`, "--load-token-env", "LOAD_TOKEN", ...options],
    { HOMING_CONTROL_TOKEN: TOKEN, LOAD_TOKEN: TOKEN },
  );
  const console = await frontend.printed(/^\s*console\s+(https?:\S+)/);
  await until(() => fetch(`http://127.0.0.1:${http}/health`).then((answer) => answer.ok, () => false));
  const loadgen = Process.start(
    program,
    ["loadgen", "--target", `http://127.0.0.1:${http}`, "--console-port", String(load), "--paused", "--concurrency", "20", "--max-tokens", "40"],
    { HOMING_CONTROL_TOKEN: TOKEN },
  );
  await loadgen.printed(/^\s*console\s+(https?:\S+)/);
  return {
    console,
    loseLoad: () => loadgen.stop(),
    stop: async () => {
      for (const each of [loadgen, frontend, ...workers, ...servers]) await each.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
