#!/usr/bin/env bash
# Installs Chromium for the tests of the page, where Debian has it as a package and we may install packages. Anywhere
# else it says so, and those tests are skipped by name: nothing but tests needs a browser.
set -euo pipefail

say() { printf 'browser: %s\n' "$*" >&2; }

if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then exit; fi
as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo -n)
fi
if ! command -v apt-get >/dev/null || ! "${as_root[@]}" true 2>/dev/null; then
    say "the tests of the page are skipped: chromium and chromium-driver are not installed"
    exit
fi
# A machine that has just been made knows no packages yet.
apt-cache show chromium-driver >/dev/null 2>&1 || "${as_root[@]}" apt-get update -qq
if ! apt-cache show chromium chromium-driver >/dev/null 2>&1; then
    say "the tests of the page are skipped: this system has no packages chromium and chromium-driver"
    exit
fi
say "installing chromium chromium-driver"
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qq -y --no-install-recommends --no-remove chromium chromium-driver >/dev/null ||
    say "chromium could not be installed: the tests of the page are skipped"
