# Runs an image as a container without rights would: not as root, and with no place to write to but its volumes. Arguments:
# the files, the user, the words of the health check, `--`, and the words that start it. It runs as root, in namespaces of
# its own for mounts, processes and the network.
root=$1 user=$2 said=$1.said health=
shift 2
while [ "$1" != -- ]; do health="$health $1"; shift; done
shift

fail() { echo "$*" >&2; exit 1; }

ip link set lo up
mount --make-rprivate /
mkdir -p "$root/proc"
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -o remount,bind,ro "$root"
for volume in var/cache/larder var/lib/larder; do
    mount -t tmpfs -o "uid=$user,gid=$user,mode=755" tmpfs "$root/$volume"
done
inside="chroot --userspec=$user:$user --groups=$user $root"

$inside "$@" > /dev/null 2> "$said" &
left=300
until $inside $health > /dev/null 2>&1; do
    left=$((left - 1))
    kill -0 $! 2> /dev/null && [ $left -gt 0 ] || fail "the image does not become healthy: $(cat "$said")"
    sleep 0.1
done
grep -q "^Uid:.$user.$user.$user" "$root/proc/$!/status" || fail "the image does not run as user $user"
kill $!
wait $! || fail "the image does not end in order"
