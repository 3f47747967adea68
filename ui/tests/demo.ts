/** Programs of our own on free ports, in front of which a browser is put. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

export type Demo = {
  /** Such as http://127.0.0.1:40321 */
  console: string;
  stop(): Promise<void>;
};

const START_PATIENCE_MS = 60_000;

function program(): string {
  const path = process.env["HOMING"];
  if (!path) throw new Error("HOMING must name the program; `cargo xtask test --only browser` sets it");
  return path;
}

/** Starts `homing demo`; `port` asks for the port that an earlier one had. */
export const startDemo = (options: string[] = [], port = 0): Promise<Demo> =>
  start(["demo", "--http-port", "0", "--console-port", String(port), "--log", "warn", ...options]);

/** Starts `homing loadgen` with a console of its own. */
export const startLoad = (target: string, options: string[] = []): Promise<Demo> =>
  start(["loadgen", "--target", target, "--console-port", "0", ...options]);

async function start(words: string[]): Promise<Demo> {
  const child = spawn(program(), words, { stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  return { console: await consoleAddress(child), stop: () => stop(child, ended) };
}

function consoleAddress(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const said: string[] = [];
    const timer = setTimeout(() => reject(new Error("no address was printed")), START_PATIENCE_MS);
    child.once("exit", (code) => reject(new Error(`ended with ${code}: ${said.join("\n")}`)));
    for (const stream of [child.stdout, child.stderr]) {
      if (!stream) throw new Error("both outputs are piped");
      // Reads to the end even when nobody listens: a full pipe would block the program.
      createInterface(stream).on("line", (line) => {
        said.push(line);
        const address = /^\s*console\s+(https?:\S+)/.exec(line)?.[1];
        if (address) {
          clearTimeout(timer);
          resolve(address);
        }
      });
    }
  });
}

async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  child.kill("SIGTERM");
  const patience = setTimeout(() => child.kill("SIGKILL"), 20_000);
  await ended;
  clearTimeout(patience);
}
