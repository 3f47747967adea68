"""The checks can fail: errors are planted in what was rendered, and each has to be found."""

import copy
import json
import os
import pathlib
import re
import tempfile
import unittest

import containers
import network
import options
import references
import render
import same
import schemas
import security
import terraform
from objects import find


def rendered(name):
    return render.kustomize(name)


def planted(overlay, kind, name, change):
    """An overlay with one object changed."""
    objects = copy.deepcopy(rendered(overlay))
    change(find(objects, kind, name))
    return objects


def alone(overlay, kind, name, change):
    """Only the changed object: the operators' schemas take a while."""
    return [find(planted(overlay, kind, name, change), kind, name)]


def container(thing):
    return thing["spec"]["template"]["spec"]["containers"][0]


class Planted(unittest.TestCase):
    def finds(self, check, objects, expected):
        problems = list(check(objects))
        self.assertTrue(
            any(re.search(expected, problem) for problem in problems),
            f"no {expected!r} among {problems}",
        )

    def test_what_is_shipped_has_no_problem(self):
        for check in [references, network, security, options]:
            self.assertEqual(list(check.problems(rendered("sim"))), [], check.__name__)

    def test_a_wrong_port_name(self):
        def change(thing):
            thing["spec"]["ports"][0]["targetPort"] = "htpp"

        objects = planted("sim", "Service", "homing-frontend", change)
        self.finds(references.problems, objects, "has no port htpp")

    def test_a_service_that_selects_nothing(self):
        def change(thing):
            thing["spec"]["selector"]["app.kubernetes.io/component"] = "workers"

        self.finds(
            references.problems,
            planted("sim", "Service", "homing-worker", change),
            "selects no pod",
        )

    def test_a_probe_on_a_port_that_is_not_there(self):
        def change(thing):
            container(thing)["readinessProbe"]["httpGet"]["port"] = "health"

        objects = planted("sim", "Deployment", "homing-worker", change)
        self.finds(references.problems, objects, "readinessProbe asks port health")

    def test_a_secret_that_nobody_documents(self):
        def change(thing):
            container(thing)["env"][2]["valueFrom"]["secretKeyRef"]["name"] = "homing-token"

        objects = planted("sim", "Deployment", "homing-frontend", change)
        self.finds(references.problems, objects, "homing-token/token is not in deploy/README.md")

    def test_a_key_that_nobody_documents(self):
        def change(thing):
            thing["spec"]["template"]["spec"]["volumes"][0]["secret"]["items"][0]["key"] = "key"

        objects = planted("sim", "Deployment", "homing-frontend", change)
        self.finds(references.problems, objects, "homing-api-keys/key is not in")

    def test_a_claim_that_is_not_there(self):
        objects = [thing for thing in rendered("vllm") if thing["kind"] != "PersistentVolumeClaim"]
        self.finds(references.problems, objects, "no PersistentVolumeClaim model-nfs-pvc")

    def test_a_monitor_that_reads_another_port(self):
        def change(thing):
            thing["spec"]["podMetricsEndpoints"][0]["port"] = "prometheus"

        self.finds(
            references.problems,
            planted("sim", "PodMonitor", "homing-worker", change),
            "no pod with port",
        )

    def test_a_route_to_a_service_that_is_not_there(self):
        def change(thing):
            thing["spec"]["rules"][0]["backendRefs"][0]["name"] = "homing"

        self.finds(
            references.problems, planted("sim", "HTTPRoute", "homing", change), "no Service homing"
        )

    def test_a_route_that_the_listener_does_not_admit(self):
        def change(thing):
            thing["spec"]["parentRefs"][0]["sectionName"] = "http"

        objects = planted("sim", "HTTPRoute", "homing-grafana", change)
        self.finds(references.problems, objects, "admits no routes of monitoring")

    def test_a_metric_that_does_not_exist(self):
        def change(thing):
            thing["spec"]["triggers"][0]["metadata"]["query"] = "sum(homing_router_queue_depth{})"

        objects = planted("sim-autoscaling", "ScaledObject", "homing-worker", change)
        self.finds(references.problems, objects, "knows no homing_router_queue_depth")

    def test_an_unknown_field_of_kubernetes(self):
        def change(thing):
            thing["spec"]["template"]["spec"]["securityContexts"] = {}

        objects = alone("sim", "Deployment", "homing-worker", change)
        self.finds(schemas.problems, objects, "securityContexts")

    def test_an_unknown_field_of_an_operator(self):
        for kind, name, change in [
            ("HTTPRoute", "homing", lambda thing: thing["spec"]["rules"][0].update(timeout="1s")),
            (
                "PodMonitor",
                "homing-worker",
                lambda thing: thing["spec"]["podMetricsEndpoints"][0].update(paths="/"),
            ),
            ("Certificate", "homing", lambda thing: thing["spec"].update(dnsName="x")),
            ("ScaledObject", "homing-worker", lambda thing: thing["spec"].update(maxReplicas=8)),
        ]:
            objects = alone("sim-autoscaling", kind, name, change)
            self.finds(
                schemas.problems, objects, f"^{kind} .*(does not exist|not assignable|unknown)"
            )

    def test_a_value_that_an_operator_refuses(self):
        def change(thing):
            del thing["spec"]["parentRefs"][0]["name"]

        self.finds(schemas.problems, alone("sim", "HTTPRoute", "homing", change), "name")

    def test_an_operator_without_a_schema(self):
        objects = [{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}]
        self.finds(schemas.problems, objects, "no schema for example.com/v1")

    def test_a_misspelt_field_of_the_graph(self):
        def change(thing):
            thing["spec"]["components"][1]["replica"] = 3

        objects = alone("dynamo", "DynamoGraphDeployment", "llama-70b", change)
        self.finds(schemas.problems, objects, "replica")

    def test_a_misspelt_field_of_a_pod_in_the_graph(self):
        def change(thing):
            thing["spec"]["components"][1]["podTemplate"]["spec"]["toleration"] = []

        objects = alone("dynamo", "DynamoGraphDeployment", "llama-70b", change)
        self.finds(schemas.problems, objects, "Pod .*TrtllmWorker.*toleration")

    def test_a_volume_that_the_graph_does_not_list(self):
        def change(thing):
            thing["spec"]["components"][1]["podTemplate"]["spec"]["volumes"][0]["name"] = "model"

        objects = planted("dynamo", "DynamoGraphDeployment", "llama-70b", change)
        self.finds(references.problems, objects, "mounts models, which it does not list")

    def test_a_policy_that_is_missing(self):
        for overlay, name, expected in [
            (
                "sim",
                "homing-frontend-to-worker",
                "homing-frontend asks .*homing-worker: not allowed",
            ),
            ("sim", "homing-worker", "homing-frontend asks .*homing-worker: not allowed"),
            ("sim", "homing-to-nats", "asks homing-nats: not allowed"),
            ("sim", "homing-dns", "asks for names: not allowed"),
            ("vllm", "homing-engine", "asks homing-engine-0.homing-engine: not allowed"),
            ("vllm", "homing-model-loader", "internet: not allowed"),
            ("dynamo", "homing-frontend-dynamo", "answers .*: not allowed"),
            ("sim", "homing-frontend-console", "asks homing-loadgen: not allowed"),
            ("sim", "homing-frontend-console", "asks kube-prometheus-stack-prometheus.*: not allowed"),
            ("vllm", "homing-dcgm-exporter", "the internet reads GPU metrics: allowed"),
        ]:
            missing = ("NetworkPolicy", name)
            objects = [
                thing
                for thing in rendered(overlay)
                if (thing["kind"], thing["metadata"]["name"]) != missing
            ]
            self.finds(network.problems, objects, expected)

    def test_a_policy_that_opens_too_much(self):
        def change(thing):
            thing["spec"]["ingress"].append({})

        objects = planted("sim", "NetworkPolicy", "homing-worker", change)
        self.finds(network.problems, objects, "the internet asks .* and should not be")

    def test_a_load_generator_that_anybody_drives(self):
        def change(thing):
            thing["spec"]["ingress"].append({"ports": [{"port": "console"}]})

        objects = planted("sim", "NetworkPolicy", "homing-loadgen", change)
        self.finds(network.problems, objects, "the internet drives the load: allowed on port 3000")

    def test_an_engine_that_nobody_runs(self):
        def change(thing):
            thing["spec"]["replicas"] = 2

        objects = planted("vllm", "StatefulSet", "homing-engine", change)
        self.finds(network.problems, objects, "homing-engine-2.homing-engine, which is not there")

    def test_a_pod_with_more_than_it_needs(self):
        def root(thing):
            thing["spec"]["template"]["spec"]["securityContext"]["runAsUser"] = 0

        def writable(thing):
            container(thing)["securityContext"]["readOnlyRootFilesystem"] = False

        def token(thing):
            thing["spec"]["template"]["spec"]["automountServiceAccountToken"] = True

        def latest(thing):
            container(thing)["image"] = "nats:latest"

        def value(thing):
            container(thing).setdefault("env", []).append(
                {"name": "NATS_TOKEN", "value": "hunter2"}
            )

        for change, expected in [
            (root, "runs as root"),
            (writable, "readOnlyRootFilesystem"),
            (token, "default account"),
            (latest, "not pinned"),
            (value, "written down"),
        ]:
            self.finds(
                security.problems, planted("sim", "Deployment", "homing-nats", change), expected
            )

    def test_only_the_exporter_reads_the_node(self):
        self.assertEqual(list(security.problems(rendered("vllm"))), [])

        def socket(thing):
            thing["spec"]["template"]["spec"]["volumes"].append(
                {"name": "kubelet", "hostPath": {"path": security.KUBELET_SOCKET}}
            )

        def disk(thing):
            thing["spec"]["template"]["spec"]["volumes"][0]["hostPath"]["path"] = "/"

        def capable(thing):
            container(thing)["securityContext"]["capabilities"] = {"add": ["SYS_ADMIN"]}

        for kind, name, change, expected in [
            ("Deployment", "homing-frontend", socket, "mounts /var/lib/kubelet/pod-resources"),
            ("DaemonSet", "homing-dcgm-exporter", disk, "mounts / of the node"),
            ("DaemonSet", "homing-dcgm-exporter", capable, "capabilities is not"),
        ]:
            self.finds(security.problems, planted("vllm", kind, name, change), expected)

    def test_a_role_that_may_write(self):
        def change(thing):
            thing["rules"][0]["verbs"].append("patch")

        self.finds(
            security.problems, planted("sim", "Role", "homing-frontend", change), "may do more"
        )

    def test_an_option_that_homing_does_not_have(self):
        for word, expected in [
            ("--nat=nats://homing-nats:4222", "has no --nat$"),
            ("--profile=h300", "no profile h300"),
            ("--events=kafka", "takes no kafka"),
            ("--discovery=none", "takes no none"),
            ("--advertise=http://10.0.0.1:7000", "takes a host"),
            ("-v", "is not --option=value"),
        ]:
            objects = planted(
                "sim",
                "Deployment",
                "homing-worker",
                lambda thing, word=word: container(thing)["args"].append(word),
            )
            self.finds(options.problems, objects, expected)

    def test_what_the_console_is_told_of_its_platform(self):
        for word, expected in [
            ("--part=cloud=DigitalOcean", "--part takes no cloud=DigitalOcean"),
            ("--part=gateway", "--part takes no gateway"),
            ("--load-token-env=LOAD_TOKEN", "nobody sets LOAD_TOKEN"),
            ("--paused", "has no --paused"),
        ]:
            objects = planted(
                "sim",
                "Deployment",
                "homing-frontend",
                lambda thing, word=word: container(thing)["args"].append(word),
            )
            self.finds(options.problems, objects, expected)

    def test_a_program_without_an_option_or_a_command(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "homing"
            program.write_text('#!/bin/sh\n[ "$1" = worker ] && echo "  --host <HOST>"\n')
            program.chmod(0o755)
            found, absent = options.of_program(program)
        self.assertIn("options.json: `homing worker` has no --port", found)
        self.assertNotIn("options.json: `homing worker` has no --host", found)
        self.assertEqual(absent, ["frontend", "epp", "loadgen"])

    def test_helm_and_kustomize_that_differ(self):
        def change(thing):
            container(thing)["ports"][0]["containerPort"] = 7001

        objects = planted("sim", "Deployment", "homing-worker", change)
        self.finds(
            lambda objects: same.problems(objects, rendered("sim")),
            objects,
            "containerPort: kustomize has 7001",
        )
        self.finds(
            lambda objects: same.problems(objects, rendered("sim")), objects[1:], "only Helm has it"
        )

    def test_a_key_that_is_there_twice(self):
        with self.assertRaisesRegex(Exception, "`a` twice"):
            render.documents("{a: 1, a: 2}")

    def test_terraform(self):
        texts = {path.name: path.read_text() for path in terraform.FOLDER.glob("*.tf")}
        self.assertEqual(list(terraform.problems(texts)), [])
        for old, new, expected in [
            ("var.gpu_size", "var.gpu_slug", "var.gpu_slug: not declared"),
            (
                "digitalocean_vpc.homing.id",
                "digitalocean_vpc.main.id",
                "digitalocean_vpc.main: not declared",
            ),
            ("performance_tier", "tier", "the provider has no tier"),
            ("  vpc_id           = digitalocean_vpc.homing.id\n", "", "vpc_id is missing"),
            (
                "node_count = var.management_nodes",
                "nodes_count = var.management_nodes",
                "has no nodes_count",
            ),
            ("min_nodes ", "minimum_nodes ", "has no minimum_nodes"),
            ('performance_tier = "high"', 'performance_tier = "high', "main.tf"),
        ]:
            changed = {name: text.replace(old, new) for name, text in texts.items()}
            self.assertNotEqual(changed, texts, old)
            self.finds(terraform.problems, changed, expected)
        wrong = {"outputs.tf": texts["outputs.tf"].replace("mount_path", "mountpath")}
        self.finds(
            terraform.problems, texts | wrong, "mountpath: the provider has no such attribute"
        )

    def test_tools_are_asked(self):
        self.assertEqual(containers.said("true"), [])
        self.assertEqual(containers.said("sh", "-c", "echo wrong; exit 1"), ["wrong"])
        self.assertEqual(containers.said("false"), ["false ended with 1"])

    def test_the_specification_is_in_the_graph(self):
        graph = find(rendered("dynamo"), "DynamoGraphDeployment", "llama-70b")
        self.assertEqual(graph["metadata"]["annotations"], {"nvidia.com/enable-grove": "true"})
        frontend, worker = graph["spec"]["components"]
        self.assertEqual((frontend["name"], worker["name"]), ("Frontend", "TrtllmWorker"))
        self.assertEqual((frontend["replicas"], worker["replicas"]), (1, 3))
        frontend, worker = (
            component["podTemplate"]["spec"]["containers"][0] for component in (frontend, worker)
        )
        self.assertIn({"name": "DYN_ROUTER_MODE", "value": "kv"}, frontend["env"])
        self.assertIn({"name": "DYN_KV_CACHE_BLOCK_SIZE", "value": "32"}, frontend["env"])
        # Without --nats, Homing reads cache events over ZeroMQ only.
        self.assertIn({"name": "DYN_EVENT_PLANE", "value": "zmq"}, graph["spec"]["env"])
        self.assertEqual(worker["resources"]["limits"], {"nvidia.com/gpu": "1"})
        words = worker["args"]
        flags = dict(zip(words, words[1:]))
        self.assertEqual(flags["--tensor-parallel-size"], "1")
        self.assertEqual(flags["--max-num-tokens"], "16384")
        self.assertEqual(flags["--max-batch-size"], "64")
        self.assertIn("--publish-events-and-metrics", words)
        overrides = {
            "enable_chunked_prefill": True,
            "disable_overlap_scheduler": False,
            "kv_cache_config": {"dtype": "fp8", "free_gpu_memory_fraction": 0.9},
        }
        self.assertEqual(json.loads(flags["--override-engine-args"]), overrides)


    def test_the_specification_is_in_the_layouts(self):
        for engine, flag in [("vllm", "--tensor-parallel-size"), ("trtllm", "--tp_size")]:
            for layout, replicas, gpus in [
                ("", 3, "1"),
                ("-tp4", 2, "4"),
                ("-draft", 3, "1"),
                ("-tp2-draft", 4, "2"),
                ("-eagle3", 3, "1"),
            ]:
                objects = rendered(engine + layout)
                engines = find(objects, "StatefulSet", "homing-engine")
                self.assertEqual(engines["spec"]["replicas"], replicas)
                there = container(engines)
                self.assertIn(f"{flag}=$(TENSOR_PARALLEL_SIZE)", there["args"])
                self.assertIn({"name": "TENSOR_PARALLEL_SIZE", "value": gpus}, there["env"])
                for kind in ["requests", "limits"]:
                    self.assertEqual(there["resources"][kind]["nvidia.com/gpu"], gpus)
                asked = container(find(objects, "Deployment", "homing-frontend"))["args"]
                upstreams = [word for word in asked if "--upstream" in word]
                # The exporter's figures of a GPU name its pod: by that they find their worker.
                named = [re.search(r",name=([^,]+)", word).group(1) for word in upstreams]
                self.assertEqual(named, [f"homing-engine-{pod}" for pod in range(replicas)])
                for pod, word in zip(named, upstreams):
                    self.assertIn(f"http://{pod}.homing-engine:", word)

    def test_what_drafts_is_loaded_and_known_to_the_engine(self):
        for overlay, draft in [
            ("vllm-draft", "Llama-3.1-8B-Instruct-FP8"),
            ("vllm-tp2-draft", "Llama-3.1-8B-Instruct-FP8"),
            ("vllm-eagle3", "Llama-3.3-70B-Instruct-speculator.eagle3"),
            ("trtllm-draft", "Llama-3.1-8B-Instruct-FP8"),
            ("trtllm-tp2-draft", "Llama-3.1-8B-Instruct-FP8"),
            ("trtllm-eagle3", "EAGLE3-LLaMA3.3-Instruct-70B"),
        ]:
            objects = rendered(overlay)
            engines = find(objects, "StatefulSet", "homing-engine")
            engine = container(engines)
            model = next(value["value"] for value in engine["env"] if value["name"] == "MODEL_PATH")
            loaded = {
                variable["name"]: variable.get("value")
                for variable in container(find(objects, "Job", "homing-model-loader"))["env"]
            }
            self.assertEqual(loaded["DESTINATION"], f"{model} /models/{draft}")
            for source, folder in zip(loaded["SOURCE"].split(), loaded["DESTINATION"].split()):
                self.assertEqual(source.rpartition("/")[2], folder.rpartition("/")[2])
            if overlay.startswith("vllm"):
                said = next(word for word in engine["args"] if "--speculative-config=" in word)
                given = json.loads(said.partition("=")[2])["model"]
            else:
                maps = [thing for thing in objects if thing["kind"] == "ConfigMap"]
                text = next(one["data"]["engine.yaml"] for one in maps if "engine.yaml" in one["data"])
                given = render.documents(text)[0]["speculative_config"]["speculative_model_dir"]
            self.assertEqual(given, f"/models/{draft}")
            frontend = container(find(objects, "Deployment", "homing-frontend"))
            self.assertIn({"name": "HOMING_MODEL_PATH", "value": model}, frontend["env"])
            drafter = engines["spec"]["template"]["metadata"]["annotations"]["homing/speculation"]
            for upstream in (word for word in frontend["args"] if "--upstream" in word):
                self.assertIn(f",drafts={drafter}", upstream)

    def test_one_file_names_everything_that_is_yours(self):
        overlay = render.OVERLAYS["digitalocean"]
        with tempfile.TemporaryDirectory() as folder:
            to_overlays = os.path.relpath(render.DEPLOY / "kubernetes/overlays", folder)
            text = (overlay / "kustomization.yaml").read_text()
            text = text.replace("../../kubernetes/overlays", to_overlays)
            text = text.replace("example.com", "example.org")
            (pathlib.Path(folder) / "kustomization.yaml").write_text(text)
            made = render.run(render.KUSTOMIZE, "build", folder)
        self.assertIn("https://homing.example.org/grafana", made)
        self.assertNotIn("example.com", made)

    def test_the_gpu_pool_scales_to_zero(self):
        text = (terraform.FOLDER / "main.tf").read_text()
        pool = text[text.index('resource "digitalocean_kubernetes_node_pool" "gpu"') :]
        self.assertRegex(pool, r"auto_scale\s+= true")
        kept = (terraform.FOLDER / "variables.tf").read_text().partition('"gpu_nodes_kept"')[2]
        self.assertRegex(kept.partition("}")[0], r"default\s+= 0")

    def test_gpus_are_counted_where_the_dashboards_look(self):
        board = (render.ROOT / "dashboards/grafana/gtc-demo.json").read_text()
        counted = re.search(r'DCGM_FI_DEV_GPU_UTIL\{exported_namespace=\\"([a-z-]+)\\"', board)
        for overlay in [*render.GPU, "dynamo"]:
            monitor = find(rendered(overlay), "ServiceMonitor", "homing-dcgm-exporter")
            rule = monitor["spec"]["endpoints"][0]["metricRelabelings"][0]
            self.assertEqual(rule["sourceLabels"], ["exported_namespace"])
            self.assertEqual(rule["regex"], "homing")
            self.assertEqual(rule["replacement"], counted.group(1))

    def test_dashboards_come_with_reference_lines(self):
        printed = render.observability()
        boards = find(printed, "ConfigMap", "homing-dashboards")["data"]
        variables = json.loads(boards["gtc-demo.json"])["templating"]["list"]
        lines = {
            variable["name"]: variable["query"]
            for variable in variables
            if re.match("(baseline|single|double)_", variable["name"])
        }
        self.assertEqual(len(lines), 9)
        baseline = json.loads(find(printed, "ConfigMap", "homing-baseline")["data"]["baseline.json"])
        for name, terms in lines.items():
            line, figure, _ = name.split("_")
            mode = {"baseline": "round-robin", "single": "kv"}.get(line)
            if mode is None:
                self.assertEqual(terms, "NaN")
                continue
            expected = {}
            for level in baseline["levels"]:
                cells = {cell["mode"]: cell for cell in level["cells"]}
                expected[level["concurrency"]] = round(cells[mode][f"{figure}_ms"]["p95"] / 1000, 6)
            written = re.findall(r"([\d.]+) \* \(scalar\([^=]+\) == bool (\d+)\)", terms)
            self.assertEqual({int(level): float(height) for height, level in written}, expected)
        self.assertLessEqual(
            references.PRINTED_MAPS, {thing["metadata"]["name"] for thing in printed}
        )


if __name__ == "__main__":
    unittest.main()
