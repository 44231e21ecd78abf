"""Print a queue's changes, each once: drop those whose position was seen already.

    .venv/bin/python examples/from_rabbitmq.py --queue shop

With --username it logs in with the password of the environment variable RABBITMQ_PASSWORD.

The positions live as long as this program. One that must survive a restart keeps them with its results.
"""

from __future__ import annotations

import argparse
import json
import os

import pika


def main() -> None:
    """Read the queue until nothing has come for `--idle` seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5672)
    parser.add_argument("--username", default="guest")
    parser.add_argument("--queue", required=True)
    parser.add_argument("--idle", type=float, default=None, help="default: never stop")
    options = parser.parse_args()
    login = pika.PlainCredentials(options.username, os.environ.get("RABBITMQ_PASSWORD", "guest"))
    where = pika.ConnectionParameters(options.host, options.port, credentials=login)
    connection = pika.BlockingConnection(where)
    channel = connection.channel()
    channel.queue_declare(options.queue, durable=True)
    seen: dict[str, tuple[str, int, int]] = {}
    for method, properties, body in channel.consume(options.queue, inactivity_timeout=options.idle):
        if method is None:
            break
        shard = properties.headers["shard"]
        file, pos, row = properties.headers["position"].rsplit(":", 2)
        position = file, int(pos), int(row)
        if shard not in seen or position > seen[shard]:
            seen[shard] = position
            change = json.loads(body)
            print(properties.headers["seq"], shard, change["type"], change["data"], flush=True)
        channel.basic_ack(method.delivery_tag)
    connection.close()


if __name__ == "__main__":
    main()
