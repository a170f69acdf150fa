"""From a SchedExt to its DaemonSet: may it run, how is it rendered, what is to be changed."""
