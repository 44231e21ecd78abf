#!/usr/bin/env bash
# Makes everything ready on Debian or Ubuntu, where Python (3.11 or later) and make are enough to begin with:
# Java, MariaDB's server programs and a C compiler from the system's packages, and .venv with the project and its
# tools in it. The hot loops are compiled again whenever their source has changed.
#
#     scripts/setup.sh           install what is missing; done in a moment when nothing is
#     scripts/setup.sh demo      only what `make demo` needs: no Java, and in .venv no Spark and no tools
#     scripts/setup.sh files     only what `make demo ARGS=--files` needs: no MariaDB either
#     scripts/setup.sh --check   name what is missing and change nothing; exit 1 if anything is
#
# A larger set completes the .venv of a smaller one.
#
# PYTHON=/path/to/python3 chooses the interpreter. No server is started, by the packages neither: only their parts
# without a service are installed.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

readonly stamp=.venv/.setup-stamp
# Seconds of silence after which a step says that it goes on.
readonly silence=10
readonly compiled_stamp=.venv/.compiled-stamp
readonly native=(binlog/native merge/rows/native merge/values/native programs/output/kafka canal_group/shapes)
# Servers stand where only root's PATH looks.
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$@"
    exit 1
}

has_python() { [ -n "${1:-}" ] && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
has_venv() { has_python "$python" && "$python" -c 'import ensurepip, venv' 2>/dev/null; }
has_mariadb() {
    command -v mariadbd && command -v mariadb-install-db && command -v my_print_defaults
} >/dev/null
has_java() {
    local version
    # 'openjdk version "17.0.15" 2025-04-15', once '"1.8.0_292"'
    version=$("$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p') || return 1
    [ "${version:-0}" -ge 17 ]
}

# Whether a program that embeds this Python could be compiled: a compiler, the C library's headers and Python's.
has_compiler() {
    local headers
    headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))') || return 1
    echo '#include <Python.h>' | ${CC:-cc} -I"$headers" -fsyntax-only -xc - 2>/dev/null
}

# The interpreter to make .venv of; empty: none is new enough.
find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        has_python "$candidate" && command -v "$candidate" && return
    done
    return 0
}

# The packages that bring what is missing.
missing_packages() {
    has_python "$python" || echo python3
    has_venv || echo python3-venv
    has_compiler || printf '%s\n' gcc libc6-dev python3-dev
    [ "$set" != all ] || has_java "${JAVA_HOME:+$JAVA_HOME/bin/}java" || echo default-jre-headless
    # The core packages hold the programs without the service that mariadb-server would start.
    [ "$set" = files ] || has_mariadb || printf '%s\n' mariadb-server-core mariadb-client-core
}

install_packages() {
    local as_root=()
    local command="apt-get install --no-install-recommends $*"
    command -v apt-get >/dev/null || fail "missing: $*; there is no apt-get here, so install their like by hand"
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || fail "missing: $*; install them with: sudo $command"
        as_root=(sudo -n)
    fi
    say "installing $* with apt-get"
    "${as_root[@]}" apt-get update -qq
    # --no-remove: rather stop than take away a MySQL that is in the way.
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y -o Dpkg::Use-Pty=0 --no-install-recommends --no-remove "$@" | told '^Need to get '
}

# Returns a line of pip or apt-get without the platforms of a wheel and without the names of all packages.
in_short() {
    sed -E <<<"$1" -e 's/^ *//' -e 's/-(cp|py)[0-9].*\.whl//' -e 's/^Downloading/fetching/' -e 's/^Using cached/cached:/' \
        -e 's/^Building editable .*/compiling the hot loops/' -e 's/^Building wheel for ([^ ]*) .*/building \1/' \
        -e 's/^Installing.*/installing/'
}

# Passes on those lines of a step's output that match a pattern, and says that it goes on while it is silent.
told() {
    local began=$SECONDS line status
    while true; do
        IFS= read -r -t "$silence" line && status=0 || status=$?
        if [ "$status" = 0 ]; then
            [[ $line =~ $1 ]] && say "  $(in_short "$line")"
        elif [ "$status" -gt 128 ]; then
            say "  still at it, $((SECONDS - began)) s"
        else
            return 0
        fi
    done
}

# Changes whenever .venv has to be made again: its interpreter, what is asked for, and where it lies.
fingerprint() {
    { "$python" -c 'import sys; print(sys.version, sys.base_prefix)' && pwd && cat pyproject.toml constraints.txt; } |
        sha256sum
}

# Whether .venv is of this interpreter, and was made here: a copied one has scripts that point to where it was.
is_venv_ours() {
    local version='import sys; print(sys.version)'
    [ "$(.venv/bin/python -c "$version" 2>/dev/null)" = "$("$python" -c "$version")" ] &&
        [[ "$(head -n 1 .venv/bin/pip 2>/dev/null)" == "#!$PWD/.venv/bin/"* ]]
}

# Whether .venv is up to date and has the extra: `dev` includes all others.
has_extra() {
    local now
    now=$(fingerprint)
    [ "$(cat "$stamp-$extra" 2>/dev/null)" = "$now" ] || [ "$(cat "$stamp-dev" 2>/dev/null)" = "$now" ]
}

make_venv() {
    if [ "$(cat "$stamp-server" 2>/dev/null)" = "$(fingerprint)" ]; then
        say "completing .venv: the project's extra '$extra'"
        install "canal-group[$extra]"
    else
        say "making .venv with $("$python" --version), and in it the project's extra '$extra'"
        rm -f "$stamp"-*
        is_venv_ours || "$python" -m venv --clear .venv
        # What builds the project is pinned like all else, hence not isolated.
        install setuptools cython
        install --no-build-isolation -e ".[$extra]"
        compiled_fingerprint >"$compiled_stamp"
    fi
    fingerprint >"$stamp-$extra"
}

# pip says the size of each file before it fetches it. Those of some kilobytes are many, and are not passed on.
# Modules are byte-compiled when they are imported: most never are.
install() {
    .venv/bin/python -m pip install --disable-pip-version-check --progress-bar off --no-compile -c constraints.txt "$@" |
        told '^ *(Downloading|Using cached) .*[0-9] [MG]B\)|^ *Building .*started|^Installing'
}

# Changes whenever the hot loops have to be compiled again.
compiled_fingerprint() { find setup.py "${native[@]}" -name setup.py -o -name '*.pyx' -o -name '*.pxd' | sort | xargs cat | sha256sum; }

is_compiled() {
    local folder
    [ "$(cat "$compiled_stamp" 2>/dev/null)" = "$(compiled_fingerprint)" ] || return 1
    for folder in "${native[@]}"; do
        compgen -G "$folder/*.so" >/dev/null || return 1
    done
}

compile() {
    local log=.venv/compile.log
    say "compiling the hot loops"
    rm -f "$compiled_stamp"
    .venv/bin/python setup.py --quiet build_ext --inplace >"$log" 2>&1 ||
        fail "the hot loops do not compile: $(tail -n 3 "$log") (see $log)"
    compiled_fingerprint >"$compiled_stamp"
}

check=false set=all extra=dev
case "${1:-}" in
'') ;;
--check) check=true ;;
demo | files) set=$1 extra=server ;;
*) fail "expected demo, files, --check or nothing, found $1" ;;
esac

python=$(find_python)
[ -n "$python" ] || [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON is not Python 3.11 or later"

mapfile -t packages < <(missing_packages)
if [ ${#packages[@]} -gt 0 ]; then
    $check && fail "missing: ${packages[*]}"
    install_packages "${packages[@]}"
    hash -r
    python=$(find_python)
    mapfile -t packages < <(missing_packages)
    [ ${#packages[@]} -eq 0 ] || fail "still missing: ${packages[*]}; wanted are Python 3.11 with venv" \
        "and its C headers, a C compiler (CC=${CC:-cc}), Java 17 (JAVA_HOME=${JAVA_HOME:-}) and MariaDB, or later ones"
fi

if ! has_extra; then
    $check && fail "missing: an up to date .venv"
    make_venv
fi
if ! is_compiled; then
    $check && fail "missing: the compiled hot loops"
    compile
fi
