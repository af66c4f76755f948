#!/bin/sh
# Makes the base of all images out of Debian's packages, where no image registry can be reached:
#
#   sudo docker/base.sh crawlstream-base
#   echo CRAWLSTREAM_BASE=crawlstream-base >>docker/.env
#
# It needs debootstrap (apt-get install debootstrap) and some two minutes. MIRROR names another mirror
# of Debian's. Authorities that this machine trusts beside the usual ones are trusted in the image, too.
set -eu
name=${1:-crawlstream-base}
mirror=${MIRROR:-http://deb.debian.org/debian}
trusted=/usr/local/share/ca-certificates
packages=ca-certificates,python3.11,python3-pip,python3.11-venv,python-is-python3

command -v debootstrap >/dev/null || { echo 'debootstrap is missing: apt-get install debootstrap' >&2; exit 1; }
command -v docker >/dev/null || { echo 'docker is missing: apt-get install docker.io' >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo 'debootstrap makes the files of root: run this as root' >&2; exit 1; }
root=$(mktemp -d)
trap 'rm -rf -- "$root"' EXIT
debootstrap --variant=minbase --include="$packages" bookworm "$root" "$mirror" >&2
printf 'deb %s %s main\n' "$mirror" bookworm "$mirror" bookworm-updates >"$root/etc/apt/sources.list"
case $mirror in */debian) printf 'deb %s-security bookworm-security main\n' "$mirror" >>"$root/etc/apt/sources.list" ;; esac
# Nothing that a package brings is started while an image is made.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod +x "$root/usr/sbin/policy-rc.d"
if [ -d "$trusted" ]; then
    cp -r "$trusted/." "$root$trusted"
    chroot "$root" update-ca-certificates >/dev/null 2>&1
fi
chroot "$root" apt-get clean
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/* "$root"/var/log/* "$root"/usr/share/doc/* \
    "$root"/usr/share/man/* "$root"/usr/share/locale/*
tar -C "$root" -c . | docker import --change 'CMD ["bash"]' - "$name"
