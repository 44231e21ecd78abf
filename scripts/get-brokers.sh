#!/usr/bin/env bash
# Unpacks the message brokers that tests publish to, and canal's own client; nothing is installed and no server is
# started:
#
#     .cache/kafka          Apache Kafka's jars, resolved by Maven, 43 MB
#     .cache/canal-client   the jars of canal's Java client, resolved by Maven, 21 MB
#     .cache/rabbitmq       Debian's RabbitMQ and Erlang, 60 MB
#
# With the argument canal-server it gets what only a benchmark compares with, and nothing else:
#
#     .cache/canal-server   the jars of canal's own server, resolved by Maven, 39 MB
#
# What cannot be had is named, and its tests are skipped by name. A folder is whole or not there.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

readonly cache=$PWD/.cache
readonly kafka=org.apache.kafka:kafka_2.13:4.1.0
# The client declares its messages as optional, so whoever uses it names both.
readonly canal=(com.alibaba.otter:canal.{client,protocol}:1.1.7)
readonly canal_server=(com.alibaba.otter:canal.{server,instance.manager}:1.1.7)

say() { printf 'brokers: %s\n' "$*" >&2; }

# Resolves jars with all that they need to run into a folder of the cache.
get_jars() { # what-is-skipped-without-them folder group:artifact:version...
    local skipped=$1 folder=$2 pom=$work/$2.xml coordinates group artifact version
    shift 2
    if ! command -v mvn >/dev/null; then
        say "$skipped: install maven"
        return
    fi
    say "getting $*"
    cat >"$pom" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>canal-group</groupId>
  <artifactId>$folder-for-tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
POM
    for coordinates; do
        IFS=: read -r group artifact version <<<"$coordinates"
        printf '    <dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n' \
            "$group" "$artifact" "$version" >>"$pom"
    done
    printf '  </dependencies>\n</project>\n' >>"$pom"
    if mvn -q -B -f "$pom" dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$work/$folder" >"$work/mvn.log" 2>&1; then
        keep "$work/$folder" "$folder"
    else
        say "$skipped: Maven does not get it ($(grep -m 1 ERROR "$work/mvn.log" | cut -c 1-200))"
    fi
}

# apt resolves against a machine that has nothing but what a Python has, so that the closure is the same everywhere.
get_rabbitmq() {
    local packages deb
    if ! command -v apt-get >/dev/null; then
        say "the tests of RabbitMQ are skipped: there is no apt-get here"
        return
    fi
    packages=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
        --no-enhances rabbitmq-server 2>/dev/null | grep -E '^(erlang-[a-z0-9-]+|rabbitmq-server)$' | sort -u || true)
    say "getting rabbitmq-server"
    # shellcheck disable=SC2086
    if [ -z "$packages" ] || ! (mkdir "$work/debs" && cd "$work/debs" && apt-get download -qq $packages >/dev/null 2>&1); then
        say "the tests of RabbitMQ are skipped: its packages cannot be had"
        return
    fi
    for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/rabbitmq"; done
    rm -rf "$work/rabbitmq/usr/share"
    # Erlang's scripts name the folder where they are installed.
    find "$work/rabbitmq/usr/lib/erlang" -name erl -type f -exec \
        sed -i "s#ROOTDIR=/usr/lib/erlang#ROOTDIR=$cache/rabbitmq/usr/lib/erlang#" {} +
    keep "$work/rabbitmq" rabbitmq
}

keep() {
    mkdir -p "$cache"
    rm -rf "${cache:?}/$2"
    mv "$1" "$cache/$2"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "${1:-}" = canal-server ]; then
    [ -d "$cache/canal-server" ] ||
        get_jars "the comparison with canal's server is skipped" canal-server "${canal_server[@]}"
    exit
fi
[ -d "$cache/kafka" ] || get_jars "the tests of Kafka are skipped" kafka "$kafka"
[ -d "$cache/canal-client" ] ||
    get_jars "the tests of canal's Java client are skipped" canal-client "${canal[@]}"
[ -d "$cache/rabbitmq" ] || get_rabbitmq
