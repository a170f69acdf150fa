"""What a node's agent reports about its kernel, and when.

`exits`: the ends of schedulers, from the kernel's log to a report; `attachments`: whose they were; `dates`:
when they were, by the node's clock. `report`: from one look to a report. `pacing`: when a report is written,
so that no kernel can make its agent flood the API server. `eject_counts`: how many ejects there were.

Everything here is about one node, by its own clock; what follows for a SchedExt is decided in `model.report`.
"""
