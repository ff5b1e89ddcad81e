#!/bin/sh
# again.sh COMMAND...: runs a command that fetches something, and runs it again after a pause when it fails: a registry may
# answer with an error once, or not at all for a moment. Ends as the last attempt does. PAUSES_S="5 15 45" are the pauses.
set -u
# What answers slowly is waited for.
export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-120}" PIP_DEFAULT_TIMEOUT="${PIP_DEFAULT_TIMEOUT:-120}"
for pause_s in ${PAUSES_S:-5 15 45}; do
    "$@" && exit 0
    echo "$1 failed: once more in $pause_s s" >&2
    sleep "$pause_s"
done
exec "$@"
