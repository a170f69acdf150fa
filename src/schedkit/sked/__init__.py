"""`sked`, the cluster command: which schedulers a fleet's kernels run."""
