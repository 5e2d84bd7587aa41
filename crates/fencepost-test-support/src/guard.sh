# The guard of what runs in $FOLDER: waits until nobody needs it, ends it, removes the folder.
#   tied    it is needed while somebody holds the other end of standard input
#   left    nobody needs it any more
#   shared  it is needed while somebody shares the lock $LOCKS/users, and for $IDLE seconds more, or until $LOCKS/stop is there
trap '' HUP INT TERM

# One guard is enough. Whether there is one is told by this lock, which ends with it.
exec 7>>"$FOLDER/guard" || exit 0
flock -n -x 7 || exit 0

is_named() { [ "$(sed -n 1p "$LOCKS/server" 2>/dev/null)" = "$FOLDER" ]; }
is_alive() { kill -0 "$(sed -n 1p "$FOLDER/data/postmaster.pid" 2>/dev/null)" 2>/dev/null; }

case $1 in
tied) cat >/dev/null ;;
left) ;;
shared)
    exec 8>>"$LOCKS/start" 9>>"$LOCKS/users"
    # Whoever starts the server holds this lock until it runs and is named.
    flock -x 8
    flock -u 8
    idle=0
    while is_named && is_alive; do
        sleep 1
        flock -n -x 9 || { idle=0; continue; }
        flock -u 9
        idle=$((idle + 1))
        [ "$idle" -ge "$IDLE" ] || [ -e "$LOCKS/stop" ] || continue
        # Users come under this lock: with both, nobody is there and nobody comes.
        flock -x 8
        flock -n -x 9 && break
        flock -u 8
        idle=0
    done
    flock -x 8
    if is_named; then rm -f "$LOCKS/server" "$LOCKS/stop"; fi
    flock -u 9
    flock -u 8
    ;;
esac

# What is run for the folder, which has a random name: what is called so and has the folder in its command line.
found() {
    printf '%s/' "$FOLDER" | grep -lF -f - /proc/[0-9]*/cmdline 2>/dev/null | while IFS=/ read -r _ _ process _; do
        case $(cat "/proc/$process/comm" 2>/dev/null) in $1) echo "$process" ;; esac
    done
}

# Those who may start a server or write to the folder are ended before it.
for name in pg_ctl cp pg_basebackup pgbouncer; do kill -9 $(found "$name") 2>/dev/null; done
# At once, though it still removes its shared memory, which outlives processes. A server kills those who do not obey after 5 s.
round=0
while servers=$(found postgres) && [ -n "$servers" ] && [ "$round" -lt 500 ]; do
    if [ "$round" -lt 350 ]; then
        kill -QUIT $servers
    else
        kill -9 $servers $(for server in $servers; do cat "/proc/$server/task/$server/children"; done)
    fi 2>/dev/null
    round=$((round + 1))
    sleep 0.02
done
# Of a server that was killed. Its number may be another's by now, but not with the same creator and nobody who uses it.
for file in "$FOLDER/data/postmaster.pid" "$FOLDER/killed"; do
    creator=$(sed -n 1p "$file" 2>/dev/null)
    segment=$(sed -n 7p "$file" 2>/dev/null)
    segment=$(awk -v id="${segment##* }" -v creator="$creator" '$2 == id && $5 == creator && $7 == 0 { print $2 }' /proc/sysvipc/shm)
    [ -z "$segment" ] || ipcrm -m "$segment"
done
rm -rf "$FOLDER"
