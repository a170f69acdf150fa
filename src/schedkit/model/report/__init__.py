"""From pods to a SchedExt's status: states of nodes, conditions, events."""
