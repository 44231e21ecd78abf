#!/usr/bin/env bash
# Generates the code of canal's messages from canal_group/canal_protocol/*.proto, in place.
#
# The result is committed, so that neither installing nor testing needs a compiler of protobuf. Code of protobuf 6.31
# runs with the library from 6.31 up to the next major version but one; a newer compiler would refuse older libraries.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

readonly compiler="grpcio-tools==1.73.1" # protobuf 6.31
readonly venv=.cache/protocol-compiler

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet "$compiler" "setuptools<81"
"$venv/bin/python" -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. canal_group/canal_protocol/*.proto
