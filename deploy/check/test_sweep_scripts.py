"""The example scripts of docs/examples, run against stand-ins of kubectl and curl that answer with what
is shipped and write down what they were asked for."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import render
from objects import find

EXAMPLES = render.ROOT / "docs/examples"
# Keeps its words, and prints the file that a test has put in place for what is asked.
KUBECTL = """#!/bin/sh
echo "$*" >> "$ASKED"
case "$*" in
  # The genuine one refuses an overlay's objects of other namespaces then.
  --namespace*" apply "*) exit 1 ;;
  *"get dynamographdeployment"*) cat "$ANSWERS/graph.json" ;;
  *"get pod homing-engine-0"*) cat "$ANSWERS/speculation" ;;
esac
"""
CURL = """#!/bin/sh
printf '{"mode":"kv","settings":{}}'
"""


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in {"kubectl": KUBECTL, "curl": CURL, "sleep": "#!/bin/sh\n"}.items():
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def run_script(self, script, *words, **answers):
        """What it printed, and every call of kubectl."""
        for name, text in answers.items():
            (self.folder / name.replace("_json", ".json")).write_text(text)
        asked = self.folder / "asked"
        asked.write_text("")
        done = subprocess.run(
            [EXAMPLES / script, *words],
            capture_output=True,
            text=True,
            env=os.environ
            | {"PATH": f"{self.folder}:{os.environ['PATH']}"}
            | {"ASKED": str(asked), "ANSWERS": str(self.folder)},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip(), asked.read_text().splitlines()

    @unittest.skipUnless(shutil.which("jq"), "jq is not installed")
    def test_the_mode_of_the_shipped_graph_is_switched(self):
        graph = find(render.kustomize("dynamo"), "DynamoGraphDeployment", "llama-70b")
        _, asked = self.run_script(
            "dynamo-sweep/set-mode.sh", "round_robin", graph_json=json.dumps(graph)
        )
        patch = next(call for call in asked if " patch " in call)
        self.assertTrue(patch.startswith("--namespace homing patch dynamographdeployment llama-70b"))
        [change] = json.loads(patch.partition("--patch ")[2])
        place = graph
        for step in change["path"].strip("/").split("/")[:-1]:
            place = place[int(step)] if isinstance(place, list) else place[step]
        self.assertEqual(place, {"name": "DYN_ROUTER_MODE", "value": "kv"})
        self.assertEqual(change["value"], "round_robin")

    def test_every_stage_of_the_story_is_an_overlay(self):
        source = (render.ROOT / "crates/prove/sweep/src/story.rs").read_text()
        for stage, router, overlay in [
            ("round-robin", "round-robin", "vllm"),
            ("kv", "kv", "vllm"),
            ("kv+draft", "kv", "vllm-draft"),
            ("kv+eagle3", "kv", "vllm-eagle3"),
        ]:
            self.assertIn(f'("{stage}", "{router}", ', source)
            _, asked = self.run_script("story-sweep/set-mode.sh", stage)
            applied = next(call for call in asked if call.startswith("apply ")).rpartition(" ")[2]
            place = (EXAMPLES / "story-sweep" / applied).resolve()
            self.assertEqual(place, render.OVERLAYS[overlay])
            self.assertTrue(any(f"DYN_ROUTER_MODE={router} " in call for call in asked))
            engines = find(render.kustomize(overlay), "StatefulSet", "homing-engine")
            said = engines["spec"]["template"]["metadata"].get("annotations", {})
            told, _ = self.run_script(
                "story-sweep/get-mode.sh", speculation=said.get("homing/speculation", "")
            )
            self.assertEqual(told, "kv" if stage == "round-robin" else stage)

    def test_what_the_story_names_is_in_the_overlays(self):
        objects = render.kustomize("vllm-eagle3")
        for kind, name in [
            ("Job", "homing-model-loader"),
            ("Deployment", "homing-loadgen"),
            ("Deployment", "homing-frontend"),
            ("StatefulSet", "homing-engine"),
        ]:
            self.assertIsNotNone(find(objects, kind, name))


if __name__ == "__main__":
    unittest.main()
