# A private network, a cluster with two pools, and a share for model weights.

resource "digitalocean_vpc" "homing" {
  name     = "${var.name}-${var.region}"
  region   = var.region
  ip_range = var.vpc_range
}

data "digitalocean_kubernetes_versions" "wanted" {
  version_prefix = "${var.kubernetes_minor}."
}

resource "digitalocean_kubernetes_cluster" "homing" {
  name           = var.name
  region         = var.region
  version        = data.digitalocean_kubernetes_versions.wanted.latest_version
  vpc_uuid       = digitalocean_vpc.homing.id
  cluster_subnet = var.pod_range
  service_subnet = var.service_range
  ha             = var.high_availability

  # Patches come by themselves, at an hour when no demonstration is given.
  auto_upgrade  = true
  surge_upgrade = true
  maintenance_policy {
    day        = "sunday"
    start_time = "04:00"
  }

  node_pool {
    name       = "management"
    size       = var.management_size
    node_count = var.management_nodes
    labels = {
      "homing/pool" = "management"
    }
  }

  lifecycle {
    # A new patch of Kubernetes is the maintenance window's affair, not the next apply's.
    ignore_changes = [version]
  }
}

# DOKS installs the driver and the device plugin, and taints these nodes with nvidia.com/gpu, so
# that only what tolerates it runs on them. Nodes come when engines wait for one and go some ten
# minutes after the last engine; with no engine there is no GPU to pay for.
resource "digitalocean_kubernetes_node_pool" "gpu" {
  count = var.gpu_nodes > 0 ? 1 : 0

  cluster_id = digitalocean_kubernetes_cluster.homing.id
  name       = "gpu"
  size       = var.gpu_size
  auto_scale = true
  min_nodes  = var.gpu_nodes_kept
  max_nodes  = var.gpu_nodes
  labels = {
    "homing/pool" = "gpu"
  }
}

# One copy of the weights for all nodes. Destroying the cluster destroys it too.
resource "digitalocean_nfs" "models" {
  name             = "${var.name}-models"
  region           = var.region
  size             = var.model_share_gib
  vpc_id           = digitalocean_vpc.homing.id
  performance_tier = "high"
}
