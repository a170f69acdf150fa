"""`sked manager` with one addition: it answers what its caches hold, as the peer does.

The product has no such answer to give, and must not have one for the sake of a benchmark: here its cluster is
replaced by one that also listens on a loopback port.
"""

from __future__ import annotations

import asyncio
import sys

import msgspec

from benchmarks.cluster import pruned  # noqa: F401 - before anything of schedkit is imported
from schedkit.kube.client import Client
from schedkit.kube.resources import Key
from schedkit.sked import wiring
from schedkit.sked.cache import Cluster
from schedkit.sked.main import main as sked


def main(port: str, *flags: str) -> None:
    """Run the manager with these flags, and the answers on that port."""

    class AnsweringCluster(Cluster):
        def __init__(self, client: Client) -> None:
            super().__init__(client)
            self.answering = asyncio.create_task(answer(self, int(port)))

    setattr(wiring, "Cluster", AnsweringCluster)  # noqa: B010  # a plain assignment is what mypy forbids
    sked(["manager", *flags])


async def answer(cluster: Cluster, port: int) -> None:
    """Answer from the moment on at which all caches are full."""
    for informer in cluster.informers:
        await informer.wait_synced()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        found = look_up(cluster, request.split()[1].decode())
        status = b"200 OK" if found is not None else b"404 Not Found"
        writer.write(b"HTTP/1.0 " + status + b"\r\n\r\n" + msgspec.json.encode(found))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", port)
    await server.serve_forever()


def look_up(cluster: Cluster, path: str) -> object:
    """What the caches say; None if there is no such thing."""
    match path.strip("/").split("/"):
        case ["counts"]:
            return {
                "nodes": len(cluster.nodes.store),
                "pods": len(cluster.pods.store),
                "daemonsets": len(cluster.daemon_sets.store),
                "schedexts": len(cluster.schedexts.store),
                "agents": len(cluster.agents.store),
                "reports": len(cluster.reports.store),
            }
        case ["nodes", name]:
            node = cluster.nodes.store.get(Key(None, name))
            return {"labels": node.metadata.labels, "taints": node.spec.taints} if node else None
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
