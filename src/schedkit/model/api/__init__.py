"""What Kubernetes stores and serves, as values: SchedExt, DaemonSet, pods, conditions."""
