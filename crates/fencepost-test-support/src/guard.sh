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

# The folder's name is random: a command line that has it is of a process that belongs here.
for round in 1 2 3 4 5 6 7 8 9 10; do
    found=$(printf '%s/' "$FOLDER" | grep -lF -f - /proc/[0-9]*/cmdline 2>/dev/null | sed 's,^/proc/,,; s,/cmdline$,,')
    [ -n "$found" ] || break
    kill -9 $found 2>/dev/null
    sleep 0.02
done
rm -rf "$FOLDER"
