# shellcheck shell=bash
# An apt of its own: it finds packages of another Debian suite than this machine's, and knows nothing of what is
# installed. Scripts source this file.

readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg

fail() {
    printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2
    exit 1
}

# The first Debian mirror in either notation of apt's sources.
own_mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        sed -nE -e 's/^URIs:[[:space:]]+//p' -e 's/^deb[[:space:]]+(\[[^]]*\][[:space:]]*)?([^[:space:]]+).*/\2/p' |
        tr -s '[:space:]' '\n' | grep -m 1 -E '/debian/?$' || true
}

# configure_apt FOLDER SUITE: lets every apt-get and apt-cache that follows use a state in FOLDER. The packages come from
# the Debian mirror that this machine's own apt uses, or from DEBIAN_MIRROR.
configure_apt() {
    local folder=$1 packages=$2 mirror=${DEBIAN_MIRROR:-$(own_mirror)}
    [ -r "$keyring" ] || fail "Debian's keys are missing: install the package debian-archive-keyring"
    [ -n "$mirror" ] || fail "no Debian mirror in this machine's apt sources; name one in DEBIAN_MIRROR"
    mkdir -p "$folder"/etc/{apt.conf.d,preferences.d,parts} "$folder/state/lists/partial" "$folder/cache/archives/partial"
    : >"$folder/state/status"
    echo "deb [signed-by=$keyring] $mirror $packages main" >"$folder/etc/sources.list"
    cat >"$folder/apt.conf" <<CONF
Dir::State "$folder/state";
Dir::State::status "$folder/state/status";
Dir::Cache "$folder/cache";
Dir::Etc "$folder/etc";
Dir::Etc::sourcelist "$folder/etc/sources.list";
Dir::Etc::sourceparts "$folder/etc/parts";
APT::Sandbox::User "";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Retries "3";
// A mirror's copy of a moving suite may be past its date.
Acquire::Check-Valid-Until "false";
Acquire::Check-Date "false";
CONF
    export APT_CONFIG="$folder/apt.conf"
}
