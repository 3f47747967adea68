terraform {
  required_version = ">= 1.9"

  required_providers {
    digitalocean = {
      source = "digitalocean/digitalocean"
      # NFS shares with a performance tier: 2.81.
      version = "~> 2.81"
    }
  }
}

# The token comes from the environment (DIGITALOCEAN_TOKEN), so that it is in no file.
provider "digitalocean" {}
