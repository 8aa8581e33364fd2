# Installs, upgrades, removes and purges a package. Arguments: a root, a folder, the package, and the same with a higher
# version. It runs as root, in namespaces of its own for mounts, processes and the network; all changes are in memory.
base=$1 work=$2 old=$3 new=$4

ip link set lo up
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
cp "$old" /mnt/upper/old.deb
cp "$new" /mnt/upper/new.deb
mount -t overlay overlay -o "lowerdir=$base,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
mount -t proc proc /mnt/root/proc
mount --rbind /dev /mnt/root/dev
mount -t tmpfs tmpfs /mnt/root/run
mount -t tmpfs tmpfs /mnt/root/tmp

cat > /mnt/root/check.sh <<'END'
fail() { echo "$*" >&2; exit 1; }
# Nothing here outlives a crash, and indexes of other packages take longer than this package.
dpkg() { command dpkg --force-unsafe-io --no-triggers "$@"; }

dpkg --install /old.deb > /dev/null
if command -v systemd-analyze > /dev/null; then
    wrong=$(systemd-analyze --no-pager verify larder.service 2>&1 | grep larder || true)
    [ -z "$wrong" ] || fail "$wrong"
fi
larder check --config /etc/larder/larder.toml > /dev/null
[ -s /usr/share/man/man1/larder-serve.1.gz ] || fail "no manual"
[ "$(stat -c %U:%a /etc/larder/larder.toml)" = root:644 ] || fail "other rights of the config"
[ -z "$(dpkg --verify larder)" ] || fail "$(dpkg --verify larder)"
echo "installed: $(larder version)"

larder serve --config /etc/larder/larder.toml > /tmp/said 2>&1 &
until larder stats > /dev/null 2>&1; do kill -0 $! || fail "$(cat /tmp/said)"; done
while larder stats > /dev/null; do :; done 2> /tmp/failed &

echo '# of the administrator' >> /etc/larder/larder.toml
dpkg --install /new.deb > /dev/null
[ "$(dpkg-query --show --showformat '${Version}' larder)" = 999.0.0 ] || fail "not upgraded"
grep -q 'of the administrator' /etc/larder/larder.toml || fail "an upgrade replaced the config"
kill -0 $! || fail "an upgrade disturbed the running process: $(cat /tmp/failed)"
kill $!
echo "upgraded, while a process served"

dpkg --remove larder > /dev/null 2>&1
[ ! -e /usr/bin/larder ] && [ -e /etc/larder/larder.toml ] || fail "removed too little, or the config"
dpkg --purge larder > /dev/null 2>&1
for path in /etc/larder /etc/apparmor.d/larder /var/lib/larder /var/cache/larder; do
    [ ! -e $path ] || fail "$path stays after a purge: $(ls -A $path)"
done
[ -z "$(dpkg-query --show larder 2> /dev/null)" ] || fail "dpkg still knows the package"
echo "removed and purged"
END
PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot /mnt/root sh -eu /check.sh
