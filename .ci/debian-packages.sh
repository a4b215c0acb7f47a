#!/bin/sh
# Makes sure that the packages of debian-packages.txt are there. As root it installs the missing ones; otherwise it
# names them and fails. On another system it trusts that the tools are there: the build names whatever is missing.
set -eu
cd "$(dirname "$0")/.."
if ! command -v dpkg-query >/dev/null; then
    echo "debian-packages: not a Debian system; see debian-packages.txt for what is needed"
    exit 0
fi

# Names of the list of one kind ("required" or "optional") that are not installed.
missing() {
    sed 's/#.*//' debian-packages.txt | while read -r name kind; do
        [ -n "$name" ] || continue
        [ "${kind:-required}" = "$1" ] || continue
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s ' "$name"
    done
}

required=$(missing required)
optional=$(missing optional)
if [ -z "$required$optional" ]; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
    [ -z "$optional" ] || echo "debian-packages: useful, but not needed: apt-get install $optional"
    [ -z "$required" ] && exit 0
    echo "debian-packages: missing; as root: apt-get install $required" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
echo "debian-packages: installing $required$optional"
apt-get update -qq || echo "debian-packages: apt-get update failed; trying with the lists that are here" >&2
if [ -n "$required" ]; then
    # shellcheck disable=SC2086  # a list of names
    apt-get install -y -qq --no-install-recommends $required >/dev/null
fi
for name in $optional; do
    apt-get install -y -qq --no-install-recommends "$name" >/dev/null ||
        echo "debian-packages: $name could not be installed; going on without it" >&2
done
