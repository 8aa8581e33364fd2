# Installs, upgrades, removes and purges a package. Arguments: a root, a folder, the package, and the same with a higher
# version. It runs as root, in namespaces of its own for mounts, processes and the network; all changes are in memory.
base=$1 work=$2 old=$3 new=$4

ip link set lo up
mount --make-rprivate /
top=$work/top
mkdir "$top"
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work" "$top/root"
cp "$old" "$top/upper/old.deb"
cp "$new" "$top/upper/new.deb"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$top/upper,workdir=$top/work" "$top/root"
mount -t proc proc "$top/root/proc"
mount --rbind /dev "$top/root/dev"
mount -t tmpfs tmpfs "$top/root/run"
mount -t tmpfs tmpfs "$top/root/tmp"

cat > "$top/root/check.sh" <<'END'
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

# Waits until a command succeeds. Arguments: what it waits for, the command.
await() {
    left=300 what=$1
    shift
    until "$@"; do
        left=$((left - 1))
        [ $left -gt 0 ] || fail "no $what: $(cat /said /failed 2> /dev/null)"
        sleep 0.1
    done
}

# The origin counts its answers. The client wants the first one on each new connection, until it is told to end.
cat > /origin <<'PERL'
use IO::Socket::INET;
my $listener = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1:3000', ReuseAddr => 1) or die $@;
for (my $number = 1; my $client = $listener->accept; $number++) {
    while (<$client>) { last if /^\r$/ }
    print $client "HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\nContent-Length: 8\r\nConnection: close\r\n\r\nanswer $number";
}
PERL
cat > /client <<'PERL'
use IO::Socket::INET;
my $count = 0;
for (; not -e '/ends'; $count++) {
    my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1:80') or die "request $count: $@";
    print $server "GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    my $answer = join '', <$server>;
    die "request $count: '$answer'" unless $answer =~ m{^HTTP/1.1 200 .*\r\n\r\nanswer 1$}s;
}
print "$count requests\n";
PERL
perl /origin &

# The service as its unit starts it: an ordinary user that may bind ports below 1024.
cat >> /etc/larder/larder.toml <<'TOML'
[reverse]
listen = "127.0.0.1:80"
[[site]]
origin = "http://127.0.0.1:3000"
TOML
install -d -o 65534 -g 65534 /var/lib/larder /var/cache/larder /run/larder
env STATE_DIRECTORY=/var/lib/larder RUNTIME_DIRECTORY=/run/larder setpriv --reuid=65534 --regid=65534 --clear-groups \
    --bounding-set=-all,+net_bind_service --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service \
    --no-new-privs larder serve --config /etc/larder/larder.toml > /said 2>&1 &
first=$!
answers() { larder stats > /dev/null 2>&1; }
await "service" answers
perl /client > /asked 2> /failed &
client=$!

# A systemd that says that the service runs: the script of the package then upgrades it.
mkdir -p /stub /run/systemd/system
printf '#!/bin/sh\nexit 0\n' > /stub/systemctl
chmod +x /stub/systemctl
PATH=/stub:$PATH

# The only process that serves now, if it has the program of the package.
serves() {
    main=
    for process in /proc/[0-9]*; do
        tr '\0' ' ' < "$process/cmdline" 2> /dev/null | grep -q '^[^ ]*larder serve' || continue
        [ -z "$main" ] && [ "$(readlink "$process/exe")" = /usr/bin/larder ] || return 1
        main=${process#/proc/}
    done
    [ -n "$main" ] && [ "$main" != "$1" ]
}
dpkg --install /new.deb > /upgraded
[ "$(dpkg-query --show --showformat '${Version}' larder)" = 999.0.0 ] || fail "not upgraded"
grep -q '^origin' /etc/larder/larder.toml || fail "an upgrade replaced the config"
grep 'serves now; kept: 1 object,' /upgraded || fail "the package does not upgrade the service: $(cat /upgraded /said)"
await "successor" serves "$first"
second=$main
kill -s USR2 "$second"
await "successor after a signal" serves "$second"
third=$main
[ "$(stat -c %u "/proc/$third")" = 65534 ] || fail "another user than before"
export MAINPID="$third"
sed -n 's/^ExecReload=//p' /usr/lib/systemd/system/larder.service > /reload
sh -eu /reload > /dev/null || fail "the unit cannot reload"
touch /ends
wait $client || fail "a request failed during an upgrade: $(cat /failed)"
sed -n 's/^ExecStop=-*//p' /usr/lib/systemd/system/larder.service > /stop
sh -eu /stop || fail "the unit cannot stop"
echo "upgraded by the package and by a signal, and stopped; no request failed, all from memory: $(cat /asked)"

dpkg --remove larder > /dev/null 2>&1
[ ! -e /usr/bin/larder ] && [ -e /etc/larder/larder.toml ] || fail "removed too little, or the config"
dpkg --purge larder > /dev/null 2>&1
for path in /etc/larder /etc/apparmor.d/larder /var/lib/larder /var/cache/larder; do
    [ ! -e $path ] || fail "$path stays after a purge: $(ls -A $path)"
done
[ -z "$(dpkg-query --show larder 2> /dev/null)" ] || fail "dpkg still knows the package"
echo "removed and purged"
END
PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$top/root" sh -eu /check.sh
