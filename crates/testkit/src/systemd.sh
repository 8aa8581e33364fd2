# Becomes a systemd as the first process of namespaces of its own: in a root of this machine's files, where all changes are
# in memory. Nothing runs but the journal. Arguments: an empty folder; and, for Larder as its packages install it, the
# repository and the program.
top=$1 repository=${2-} larder=${3-}

mount --make-rprivate /
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
cd "$top/root"
rm -rf etc/larder var/lib/larder var/cache/larder usr/sbin/policy-rc.d
for folder in etc/systemd/system run tmp dev; do
    mount -t tmpfs tmpfs $folder
done
mkdir -p etc/systemd/system/test.target.wants dev/pts dev/shm
units=usr/lib/systemd/system
if [ -n "$larder" ]; then
    mkdir -p etc/larder
    : > usr/bin/larder
    mount --bind "$larder" usr/bin/larder
    cp "$repository/packaging/larder.service" $units
    cp "$repository/packaging/larder.toml" etc/larder
fi
for target in basic local-fs sockets sysinit timers; do
    mkdir -p $units/$target.target.wants
    mount -t tmpfs tmpfs $units/$target.target.wants
done
printf '[Unit]\nDefaultDependencies=no\n' > etc/systemd/system/test.target
ln -s /$units/systemd-journald.service etc/systemd/system/test.target.wants
printf '[Journal]\nReadKMsg=no\nStorage=volatile\n' > etc/systemd/journald.conf
head -c 16 /dev/urandom | od -A n -t x1 | tr -d ' \n' > etc/machine-id

for device in null zero full random urandom tty; do
    : > dev/$device
    mount --bind /dev/$device dev/$device
done
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
# systemd prepares credentials there.
mount -t tmpfs tmpfs dev/shm
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
ip link set lo up
mount -t cgroup2 cgroup2 sys/fs/cgroup

mkdir tmp/before
pivot_root . tmp/before
umount -l tmp/before
# Credentials are mounted in another namespace.
mount --make-rshared /
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=test.target --log-target=journal
