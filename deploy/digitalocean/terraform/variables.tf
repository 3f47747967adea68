variable "name" {
  description = "Prefix of everything's name"
  type        = string
  default     = "homing"
}

variable "region" {
  description = "A region that has the GPUs and NFS shares"
  type        = string
  default     = "nyc2"
}

variable "kubernetes_minor" {
  description = "Minor version of Kubernetes; the newest patch of it is taken"
  type        = string
  default     = "1.34"
}

variable "vpc_range" {
  description = "Addresses of nodes and of the NFS share"
  type        = string
  default     = "10.100.0.0/20"
}

# VPC-native networking, which the managed Gateway API needs. Neither range may overlap the VPC's.
variable "pod_range" {
  description = "Addresses of pods"
  type        = string
  default     = "10.101.0.0/16"
}

variable "service_range" {
  description = "Addresses of services"
  type        = string
  default     = "10.102.0.0/19"
}

variable "management_size" {
  description = "Machine for frontend, load generator, NATS, Prometheus and controllers"
  type        = string
  default     = "s-8vcpu-16gb"
}

variable "management_nodes" {
  type    = number
  default = 2
}

variable "gpu_size" {
  description = "Machine with one H200"
  type        = string
  default     = "gpu-h200x1-141gb"
}

variable "gpu_nodes" {
  description = "Most nodes at a time, one engine each; 0 for the simulated workers alone"
  type        = number
  default     = 3
}

variable "gpu_nodes_kept" {
  description = "Nodes that stay while no engine runs"
  type        = number
  default     = 0
}

variable "model_share_gib" {
  description = "Size of the share with model weights; a 70B model in FP8 is about 70 GB"
  type        = number
  default     = 500
}

variable "high_availability" {
  description = "A control plane without a single point of failure; it cannot be taken back"
  type        = bool
  default     = false
}
