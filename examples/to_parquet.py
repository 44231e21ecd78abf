"""Write one table's changes to Parquet files, one per batch, each acknowledged once it is on disk.

    .venv/bin/python examples/to_parquet.py --destination shop --table shop.orders --folder orders

A file's name is the merged sequence at the start of its batch. After a crash between writing and
acknowledging, the repeated batch has the same start, and so replaces the file that was written before.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow.parquet as pq

import canal_group


def main() -> None:
    """Consume until nothing has come for `--idle` seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gateway", default="grpc://127.0.0.1:11113")
    parser.add_argument("--destination", required=True)
    parser.add_argument("--client", default="parquet")
    parser.add_argument("--table", required=True, help="schema.table, after routes")
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument(
        "--idle", type=float, default=None, help="seconds without changes after which to stop; default: never"
    )
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with canal_group.connect(
        options.gateway, destination=options.destination, client_id=options.client
    ) as consumer:
        while True:
            try:
                batch = consumer.get_without_ack(batch_size=10_000, timeout=options.idle)
                if batch is None:
                    return
                write(batch, options.table, options.folder)
                consumer.ack(batch.batch_id)
            except canal_group.RolledBack:
                continue  # its rows are delivered again, and replace the file


def write(batch: canal_group.Batch, table: str, folder: Path) -> None:
    """Write a batch's changes of one table atomically."""
    rows = batch.table(table)
    file = folder / f"{batch.start.sequence:020d}.parquet"
    if rows.num_rows:
        pq.write_table(rows, file.with_suffix(".part"))
        file.with_suffix(".part").replace(file)
    else:
        file.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
