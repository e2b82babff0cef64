#!/bin/sh
# backup.sh TRIOBOT STORE FOLDER KEEP: makes a backup of a store, checks it, and keeps so many of the newest.
# The bot goes on meanwhile. Nothing is removed before the new backup has been found whole.
set -eu
triobot=$1 store=$2 folder=$3 keep=$4
mkdir -p -m 0700 "$folder"
made=$folder/$(date -u +%Y%m%dT%H%M%SZ).db
"$triobot" store --store "$store" backup "$made.part"
"$triobot" store check "$made.part"
mv "$made.part" "$made"
sync "$made"
# What an interrupted run left behind, and the oldest.
find "$folder" -maxdepth 1 -name '*.db.part*' -delete
find "$folder" -maxdepth 1 -name '*T*Z.db' | sort -r | tail -n "+$((keep + 1))" |
    while IFS= read -r old; do rm -- "$old"; done
