"""Where the last changes of a row are, and whether the rules of tables keep them."""

from __future__ import annotations

import struct
from pathlib import Path

from binlog_bytes import SIZES_5_1, File

from actors.parse.files.files_reader import FilesSource
from actors.shard.row_search import changes_of
from actors.sink.consumer_view import ConsumerView
from actors.sink.processing import Processing
from actors.sink.table_rule import KEPT, TableRule
from canal_group.command.trace_command import key_lines
from conf.filters.expression_text import parse_expression
from merge.rows.row_key import RowKey
from merge.values.chunk import TableName

FIXTURES = Path(__file__).parents[2] / "fixtures" / "mysql-9.7.4"
