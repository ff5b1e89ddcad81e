#!/bin/sh
# Makes each of these targets, also after one has failed. The last line names those that failed.
trap "exit 130" INT TERM
failed=""
for part in "$@"; do
	make --no-print-directory "$part" || failed="$failed $part"
done
[ -z "$failed" ] && exit 0
echo "failed:$failed" >&2
exit 1
