"""Write one table's changes to Parquet with Ray Data, a folder for each offset range.

    ray job submit --address http://127.0.0.1:8265 --working-dir examples -- \
        python ray_parquet.py --destination shop --table shop.orders --folder /data/orders

It ends when nothing has come for `--idle` seconds. A folder's name is the merged sequence at the start of
its offset range. If a run dies, the next one removes what was written and not acknowledged, and reads it
again: so every change is written once. All nodes of Ray must have access to the folder.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import canal_group
from canal_group import ray_data


def main() -> None:
    """Write until nothing has come for `--idle` seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gateway", default="grpc://127.0.0.1:11113")
    parser.add_argument("--destination", required=True)
    parser.add_argument("--client", default="lake")
    parser.add_argument("--table", required=True, help="schema.table, after routes")
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000, help="most rows of an offset range")
    parser.add_argument(
        "--idle", type=float, default=10.0, help="seconds without changes after which to stop"
    )
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with canal_group.connect(
        options.gateway, destination=options.destination, client_id=options.client
    ) as consumer:
        position = consumer.cursor
        for each in folder.iterdir():
            if int(each.name) >= position.sequence:
                shutil.rmtree(each)
        while True:
            offset_range = consumer.offset_range(position, rows_max=options.rows, timeout=options.idle)
            if offset_range is None:
                return
            target = folder / f"{offset_range.start.sequence:020d}"
            ray_data.dataset(consumer, offset_range, options.table).write_parquet(str(target))
            consumer.ack(offset_range.batch_id)
            position = offset_range.end
            print(f"{target.name}: {offset_range.rows} changes of all tables", flush=True)


if __name__ == "__main__":
    main()
