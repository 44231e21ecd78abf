"""Write one table's changes to Parquet with Ray Data, a folder for each range, until nothing more comes.

    ray job submit --address http://127.0.0.1:8265 --working-dir examples -- \
        python ray_parquet.py --destination shop --table shop.orders --folder /data/orders

A folder's name is the merged sequence where its offset range begins. What was written and not acknowledged
when a run died is removed by the next one, which reads it again: every change is there once. The folder is
one that all of Ray's nodes see.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import canal_group
from canal_group import ray_data


def main() -> None:
    """Write until there is nothing for `--idle` seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gateway", default="grpc://127.0.0.1:11113")
    parser.add_argument("--destination", required=True)
    parser.add_argument("--client", default="lake")
    parser.add_argument("--table", required=True, help="schema.table, after routes")
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of an offset range, at most")
    parser.add_argument("--idle", type=float, default=10.0, help="seconds")
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with canal_group.connect(
        options.gateway, destination=options.destination, client_id=options.client
    ) as consumer:
        place = consumer.cursor
        for each in folder.iterdir():
            if int(each.name) >= place.sequence:
                shutil.rmtree(each)
        while True:
            offset_range = consumer.offset_range(place, rows_max=options.rows, timeout=options.idle)
            if offset_range is None:
                return
            target = folder / f"{offset_range.start.sequence:020d}"
            ray_data.dataset(consumer, offset_range, options.table).write_parquet(str(target))
            consumer.ack(offset_range.batch_id)
            place = offset_range.end
            print(f"{target.name}: {offset_range.rows} changes of all tables", flush=True)


if __name__ == "__main__":
    main()
