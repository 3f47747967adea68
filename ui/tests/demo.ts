/** A demo of our own on free ports, in front of which a browser is put. */
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
export async function startDemo(options: string[] = [], port = 0): Promise<Demo> {
  const words = ["demo", "--http-port", "0", "--console-port", String(port), "--log", "warn", ...options];
  const child = spawn(program(), words, { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  return { console: await consoleAddress(child), stop: () => stop(child, ended) };
}

function consoleAddress(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("the demo printed no address")), START_PATIENCE_MS);
    child.once("exit", (code) => reject(new Error(`the demo ended with ${code}`)));
    const { stdout } = child;
    if (!stdout) throw new Error("the demo's output is piped");
    // Reads to the end even when nobody listens: a full pipe would block the demo.
    createInterface(stdout).on("line", (line) => {
      const address = /^\s*console\s+(http:\S+)/.exec(line)?.[1];
      if (address) {
        clearTimeout(timer);
        resolve(address);
      }
    });
  });
}

async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  child.kill("SIGTERM");
  const patience = setTimeout(() => child.kill("SIGKILL"), 20_000);
  await ended;
  clearTimeout(patience);
}
