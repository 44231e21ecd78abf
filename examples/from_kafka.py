"""Print a topic's changes, each once, whatever was killed: read only what is committed.

.venv/bin/python examples/from_kafka.py --topic shop_orders

With --username it logs in by SASL; the environment variable KAFKA_PASSWORD holds the password.
"""

from __future__ import annotations

import argparse
import json
import os

from confluent_kafka import Consumer


def main() -> None:
    """Read the topic until nothing has come for `--idle` seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="printer")
    parser.add_argument("--username")
    parser.add_argument("--mechanism", default="SCRAM-SHA-512")
    parser.add_argument("--protocol", default="SASL_SSL", help="with --username")
    parser.add_argument("--idle", type=float, default=-1, help="default: never stop")
    options = parser.parse_args()
    login = {
        "security.protocol": options.protocol,
        "sasl.mechanism": options.mechanism,
        "sasl.username": options.username,
        "sasl.password": os.environ.get("KAFKA_PASSWORD"),
    }
    consumer = Consumer(
        {
            **(login if options.username else {}),
            "bootstrap.servers": options.servers,
            "group.id": options.group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([options.topic])
    try:
        while (message := consumer.poll(options.idle)) is not None:
            if message.error() is not None:
                continue  # The topic is not there yet, or a broker is away: the client tries again.
            headers = {name: value.decode() for name, value in message.headers()}
            change = json.loads(message.value())
            print(headers["seq"], headers["shard"], change["type"], change["data"], flush=True)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
