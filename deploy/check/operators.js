// Objects of operators against the packages that carry their schemas. Reads a JSON list, prints a JSON
// list of problems.
//
// Twice, because either way misses something: the validators know patterns and what is required but
// let unknown fields pass; the types know every field, and TypeScript refuses one that is not theirs
// when it is written down in place. So every object is also written down as a constant of its type.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const PACKAGES = {
  "gateway.networking.k8s.io": "@kubernetes-models/gateway-api",
  "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
  "cert-manager.io": "@kubernetes-models/cert-manager",
  "keda.sh": "@kubernetes-models/keda",
};

const nameOf = (object) =>
  `${object.kind} ${object.metadata?.namespace ?? "-"}/${object.metadata?.name}`;

async function valueProblems(object, module) {
  const models = await import(module);
  const Model = models[object.kind];
  if (!Model) return [`${nameOf(object)}: ${module} knows no ${object.kind}`];
  try {
    new Model(object).validate();
    return [];
  } catch (error) {
    return [`${nameOf(object)}: ${error.message}`];
  }
}

/** Types of all objects by one run of the compiler; a line of the file is an object. */
function typeProblems(objects, modules) {
  const folder = mkdtempSync(join(import.meta.dirname, "node_modules/.objects-"));
  try {
    const lines = objects.map(
      (object, index) =>
        `export const o${index}: import("${modules[index]}").I${object.kind} = ${JSON.stringify(object)};`,
    );
    const file = join(folder, "objects.ts");
    writeFileSync(file, lines.join("\n"));
    const words = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext"];
    const resolution = ["--moduleResolution", "bundler", "--pretty", "false", "--types", ""];
    const tsc = join(import.meta.dirname, "node_modules/.bin/tsc");
    const done = spawnSync(tsc, [...words, ...resolution, file], { encoding: "utf8" });
    if (done.status === 0) return [];
    const faults = done.stdout.split("\n").filter((line) => line.includes("error TS"));
    return faults.map((fault) => {
      const line = /objects\.ts\((\d+),/.exec(fault);
      const message = fault.replace(/^.*error TS\d+: /, "");
      return line ? `${nameOf(objects[Number(line[1]) - 1])}: ${message}` : fault;
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const objects = JSON.parse(readFileSync(0, "utf8"));
const problems = [];
const known = [];
const modules = [];
for (const object of objects) {
  const [group, version] = object.apiVersion.split("/");
  if (!(group in PACKAGES)) {
    problems.push(`${nameOf(object)}: no schema for ${object.apiVersion}`);
    continue;
  }
  const module = `${PACKAGES[group]}/${group}/${version}`;
  problems.push(...(await valueProblems(object, module)));
  known.push(object);
  modules.push(module);
}
problems.push(...typeProblems(known, modules));
console.log(JSON.stringify(problems));
