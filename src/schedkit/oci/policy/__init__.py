"""Trust on disk: what people wrote, what was embedded, what was decided before.

`files`: policies, with the keys and roots they name, read by `strict_yaml` and kept parsed by `file_cache`.
`patterns`: their regular expressions, by RE2.
`dated_root`: the trusted root in use, embedded or newer by `root_update`, for which `tuf_fetcher` asks.
`verdict_cache`: images that were verified before.
"""
