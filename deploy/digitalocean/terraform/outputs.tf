output "cluster" {
  description = "For: doctl kubernetes cluster kubeconfig save"
  value       = digitalocean_kubernetes_cluster.homing.id
}

output "nfs_server" {
  description = "Address of the share, for the PersistentVolume"
  value       = digitalocean_nfs.models.host
}

output "nfs_path" {
  description = "Path of the share, for the PersistentVolume"
  value       = digitalocean_nfs.models.mount_path
}
