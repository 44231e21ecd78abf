#!/usr/bin/env bash
# Unpacks a real MySQL server, Debian unstable's mysql-server-core, for the tests and the demo. Nothing is installed:
# apt resolves and fetches everything down to the C library under a state of its own, and two wrappers run the programs
# with that library. A few seconds and 180 MB.
#
#     scripts/get-mysql.sh [PREFIX]   makes PREFIX/bin/mysqld and PREFIX/bin/mysqlbinlog; default: .cache/mysql
#
# The packages come from the Debian mirror that this machine's own apt uses, or from DEBIAN_MIRROR. The suite moves:
# keep the prefix, it is made again only when it was removed. A prefix is whole or not there.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/apt-apart.sh
. scripts/apt-apart.sh

readonly suite=sid package=mysql-server-core
# What the closure brings along and neither program opens.
readonly needless='^(perl|libperl|libdb5|libgdbm|libc-gconv|gcc-.*-base)'

unpack() {
    local deb name
    for deb in "$work"/cache/archives/*.deb; do
        name=${deb##*/}
        [[ $name =~ $needless ]] && continue
        dpkg-deb --fsys-tarfile "$deb" |
            tar -x -C "$part" --exclude='./usr/share/'{doc,man,locale,lintian,gdb,bash-completion}
    done
    # Of the clients only the second opinion on binlogs stays.
    find "$part/usr/bin" -type f ! -name mysqlbinlog -delete
}

# wrap NAME PROGRAM OPTIONS: a script that runs a program of the prefix with the prefix's own loader.
wrap() {
    local loader
    loader=$(cd "$part" && find usr/lib -name 'ld-linux*.so.*' -path '*linux-gnu*' | head -n 1)
    [ -n "$loader" ] || fail "the packages have no loader"
    cat >"$part/bin/$1" <<WRAPPER
#!/bin/sh
prefix=\$(cd "\$(dirname "\$0")/.." && pwd)
exec "\$prefix/$loader" --library-path "\$prefix/${loader%/*}" "\$prefix/$2" --no-defaults $3 "\$@"
WRAPPER
    chmod +x "$part/bin/$1"
}

prefix=${1:-.cache/mysql}
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "this is no Debian: there is no apt here"

work=$(mktemp -d)
part="$prefix.part"
trap 'rm -rf "$work" "$part"' EXIT
rm -rf "$part"
mkdir -p "$part/bin"
configure_apt "$work" "$suite"
apt-get -qq update >&2 || fail "the Debian mirror does not answer"
apt-get -qq -y --download-only install "$package" >/dev/null || fail "the Debian mirror has no $package in $suite"
unpack
wrap mysqld usr/sbin/mysqld "--basedir=\"\$prefix/usr\" --lc-messages-dir=\"\$prefix/usr/share/mysql\" \\
    --character-sets-dir=\"\$prefix/usr/share/mysql/charsets\" --plugin-dir=\"\$prefix/usr/lib/mysql/plugin\" \\
    --secure-file-priv=NULL"
wrap mysqlbinlog usr/bin/mysqlbinlog "--character-sets-dir=\"\$prefix/usr/share/mysql/charsets\""
"$part/bin/mysqld" --version >&2 || fail "the server does not run on this machine"
rm -rf "$prefix"
mv "$part" "$prefix"
