#!/usr/bin/env bash
# Gets what only tests need, where Debian has packages of it: Chromium for the page, Prometheus for alerts and the board,
# the message brokers and canal's Java client. What cannot be had is named, and its tests are skipped by name.
#
# Prometheus's package would start a server, so its programs are unpacked into a folder of ours instead.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

readonly cache=$PWD/.cache

say() { printf 'test tools: %s\n' "$*" >&2; }

has_browser() { command -v chromium && command -v chromedriver; } >/dev/null
has_prometheus() { [ -x "$cache/prometheus/usr/bin/promtool" ] || command -v promtool >/dev/null; }
may_install() { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

get_browser() {
    if ! may_install; then
        say "the tests of the page are skipped: install chromium and chromium-driver for them"
    elif ! apt-cache show chromium chromium-driver >/dev/null 2>&1; then
        say "the tests of the page are skipped: this system has no packages chromium and chromium-driver"
    else
        say "installing chromium chromium-driver"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends --no-remove \
            chromium chromium-driver >/dev/null || say "that failed: the tests of the page are skipped"
    fi
}

get_prometheus() {
    local folder
    folder=$(mktemp -d)
    say "getting prometheus"
    if (cd "$folder" && apt-get download -qq prometheus >/dev/null 2>&1 && dpkg -x prometheus_*.deb unpacked); then
        mkdir -p "$cache"
        rm -rf "$cache/prometheus"
        mv "$folder/unpacked" "$cache/prometheus"
    else
        say "the tests of alerts and board are skipped: prometheus cannot be had"
    fi
    rm -rf "$folder"
}

scripts/get-brokers.sh
if has_browser && has_prometheus; then exit; fi
if ! command -v apt-get >/dev/null; then
    say "the tests of page, alerts and board are skipped: there is no apt-get here"
    exit
fi
# A machine that has just been made knows no packages yet.
if ! apt-cache show prometheus >/dev/null 2>&1 && may_install; then as_root apt-get update -qq; fi
has_browser || get_browser
has_prometheus || get_prometheus
