"""Addresses and names that several parts of the rigs have to agree on."""

from __future__ import annotations

# QEMU's user network: every guest with a network is alone on one, and has the same place in it
HOST_SEEN_FROM_GUESTS = "10.0.2.2"
GUEST = "10.0.2.15"

# the `kubernetes` service, through which pods find the API server
SERVICE_RANGE, SERVICE = "10.0.0.0/24", "10.0.0.1"
SERVICE_NAME = "kubernetes.default.svc.cluster.local"
