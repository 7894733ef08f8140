#!/bin/sh
# load-images.sh LIST ARCHIVE REGISTRY loads an archive of save-images.sh, and pushes its images to a registry, each under the path
# that it has in its own one. DOCKER names another program with docker's commands.
set -eu

if [ $# -ne 3 ]; then
	echo "usage: load-images.sh LIST ARCHIVE REGISTRY, for example: load-images.sh images.txt images.tar mirror.example.com" >&2
	exit 2
fi
list=$1 archive=$2 registry=$3
if pinned=$(grep '@' "$list"); then
	echo "load-images.sh: docker does not push images by their digest. Name these by a tag, or copy them with skopeo copy --all:" >&2
	echo "$pinned" >&2
	exit 1
fi
"${DOCKER:-docker}" load --quiet -i "$archive" >/dev/null
count=$(grep -c . "$list") || { echo "load-images.sh: no image in $list" >&2; exit 1; }
n=0
while read -r image || [ -n "$image" ]; do
	[ -n "$image" ] || continue
	n=$((n + 1))
	to=$registry/${image#*/}
	echo "[$n/$count] $to"
	"${DOCKER:-docker}" tag "$image" "$to"
	"${DOCKER:-docker}" push --quiet "$to" </dev/null >/dev/null
done <"$list"
echo "$registry has $count images"
