"""`sked agent`: on each node, what its kernel runs, as one object of the API server.

`command`: its flags. `process`: the parts put together, and the loop. `watcher`: looks at the kernel, as
seldom as possible. `reporter`: writes the report. `identity`: which node this is, by the token. `probes`:
whether it is well. `node_metrics`: its numbers, if somebody wants them. `journal`: its log.

It decides nothing: that is `model.node`. It runs on every node of a fleet, so it imports little: without
metrics no aiohttp, no structlog. It blocks in threads of its own, so that it can say that something hangs.
"""
