"""Images wherever they lie: ports, layouts, copies, layers."""
