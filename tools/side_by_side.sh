#!/bin/sh
# side_by_side.sh COMMAND...: runs commands at the same time, each of which uses one core, and shows what each prints
# once it has ended. Fails if one does.
set -u
outputs="$(mktemp -d)"
trap 'rm -rf "$outputs"' EXIT
trap 'trap - TERM; kill 0' INT TERM
number=0
for command; do
    number=$((number + 1))
    (
        code=0
        sh -c "$command" >"$outputs/$number" 2>&1 || code=$?
        echo "$code" >"$outputs/$number.code"
    ) &
done
wait
failed=0
number=0
for command; do
    number=$((number + 1))
    echo "$command"
    cat "$outputs/$number"
    [ "$(cat "$outputs/$number.code")" = 0 ] || failed=1
done
exit "$failed"
