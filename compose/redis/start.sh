#!/bin/sh
# Start Redis with the password of REDISCLI_AUTH, which then stands in a file of its owner's and on no command line.
set -eu
folder="${REDIS_RUN_DIR:-/run/redis}"
settings="${1:-/etc/redis/redis.conf}"
umask 077
# Redis reads a quoted value in which \ and " are escaped.
printf '%s' "$REDISCLI_AUTH" | sed -e 's/[\\"]/\\&/g' -e 's/^/requirepass "/' -e 's/$/"/' > "$folder/password.conf"
printf '\ninclude %s\n' "$settings" >> "$folder/password.conf"
exec redis-server "$folder/password.conf"
