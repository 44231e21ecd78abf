#!/usr/bin/env bash
# Unpacks the servers' own test suites, whose statements tests/integration/binlog/test_suites.py plays; nothing is
# installed, and only the files with statements are kept:
#
#     .cache/ddl-suites/mariadb   Debian's mariadb-test-data for this machine's MariaDB, 80 MB
#     .cache/ddl-suites/mysql     Debian unstable's mysql-testsuite, as new as get-mysql.sh's server, 110 MB
#
# What cannot be had is named, and its test is skipped by name. A folder is whole or not there.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/apt-apart.sh
. scripts/apt-apart.sh

readonly suites=$PWD/.cache/ddl-suites

say() { printf 'ddl suites: %s\n' "$*" >&2; }

# keep VENDOR FOLDER: takes the statements out of the package in $work/VENDOR.
keep() {
    local part=$work/unpacked-$1
    mkdir -p "$part" "$suites"
    dpkg-deb --fsys-tarfile "$work/$1/"*.deb | tar -x -C "$part" --wildcards "./$2/*.test" "./$2/*.inc"
    mv "$part/$2" "$suites/$1"
}

# download VENDOR PACKAGE: as the apt that is configured finds it.
download() {
    mkdir "$work/$1"
    say "getting $2"
    (cd "$work/$1" && apt-get -qq download "$2" >/dev/null 2>&1)
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { say "both are skipped: there is no apt here"; exit; }
if [ ! -d "$suites/mariadb" ]; then
    if download mariadb mariadb-test-data; then keep mariadb usr/share/mysql/mysql-test; else
        say "MariaDB's is skipped: its package cannot be had"
    fi
fi
if [ ! -d "$suites/mysql" ]; then
    configure_apt "$work" sid
    if apt-get -qq update >&2 && download mysql mysql-testsuite; then keep mysql usr/lib/mysql-test; else
        say "MySQL's is skipped: its package cannot be had"
    fi
fi
