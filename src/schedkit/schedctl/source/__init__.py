"""From a word to an image that may run.

In order: `choose` (which image is meant, by `catalog_files`), `fetch` (for this machine), `trust` (may it
run), `load` (into a runtime). `needs`: what an image wants of a machine. `catalog_facts`: what the catalog
says about one. `destinations`: where images and files go.
"""
