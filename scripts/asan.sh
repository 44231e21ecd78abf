#!/usr/bin/env bash
# Compiles the hot loops with the address and undefined-behaviour sanitizers, in build/asan, and runs damaged rows
# events, damaged binlogs (MINUTES=1, SEED=7; a new seed without) and the property tests through them. What the source
# tree has is left as it is.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

readonly tree=build/asan/tree
readonly python=$PWD/.venv/bin/python

rm -rf "$tree"
mkdir -p "$tree"
# Imported from a tree of its own, so that the module with the sanitizers is the one that is found.
cp -r merge conf binlog canal_group actors programs tests setup.py pyproject.toml README.md LICENSE "$tree"
find "$tree" -name "*.so" -delete
cd "$tree"
CANAL_GROUP_ASAN=1 "$python" setup.py --quiet build_ext --inplace >asan.log 2>&1 || {
    tail -n 20 asan.log >&2
    exit 1
}
# The interpreter is not compiled so: the runtimes must be loaded before it. It keeps memory until it ends, hence no
# search for leaks; and its own allocator would hide what is read past an end.
preload=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)
export LD_PRELOAD=$preload ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc PYTHONPATH=$PWD:$PWD/tests
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 ARROW_DEFAULT_MEMORY_POOL=system
"$python" -m support.rows.rows_corpus
# A sanitizer ends the process, which then cannot say where it was: the same seed comes to the same step.
seed=${SEED:-$RANDOM$RANDOM}
echo "damaged binlogs from seed $seed on; SEED=$seed make asan plays them again"
"$python" -m support.binlog.fuzz "${MINUTES:-1}" "$seed"
"$python" -m pytest -q -p no:cacheprovider tests/unit/binlog/columns/test_rows.py tests/unit/binlog/columns/test_columns.py \
    tests/unit/binlog/columns/test_partial_images.py tests/unit/binlog/archive/test_file_scan.py \
    tests/property/test_rows.py tests/property/test_result_rows.py tests/property/test_fast_path.py tests/property/test_partial_images.py \
    tests/property/test_ranges.py tests/property/test_assemble.py \
    tests/unit/merge/rows/test_text_native.py tests/unit/merge/rows/test_text.py \
    tests/unit/merge/rows/test_canal_native.py tests/property/test_canal_entries.py \
    tests/property/test_texts.py \
    tests/unit/output/test_flat_message.py tests/unit/output/test_json_writer.py tests/unit/output/test_batch_producer.py
