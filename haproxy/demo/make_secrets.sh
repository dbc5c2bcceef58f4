#!/bin/bash
# make_secrets.sh DIR: makes a password, and the users of Redis with it, each file for its reader
# alone. Run by compose.yaml, once, in a container of its own. The agents' user is the line that
# agent/README.md has for it; `health` may ask whether Redis is there.
set -euo pipefail

cd "$1"
if [[ -s users.acl ]]; then
    exit 0
fi
limiter=$(sed -n 's/^    ACL SETUSER \(.*\)$/user \1/p' /agent/README.md)
if [[ $limiter != *">PASSWORD "* ]]; then
    echo "make_secrets.sh: agent/README.md has no line ACL SETUSER" >&2
    exit 1
fi
umask 077
password=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
echo "$password" >redis-password
printf '%s\n' "${limiter/PASSWORD/$password}" "user default off" "user health on nopass -@all +ping" >users.new
chown 10001 redis-password
chown redis users.new
mv users.new users.acl
