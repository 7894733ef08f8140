#!/bin/sh
# save-images.sh LIST ARCHIVE pulls the images of a list, one a line, and saves all of them in one archive.
# "kubectl gcu images -f gr.json" writes the list. DOCKER names another program with docker's commands.
set -eu

if [ $# -ne 2 ]; then
	echo "usage: save-images.sh LIST ARCHIVE, for example: save-images.sh images.txt images.tar" >&2
	exit 2
fi
list=$1 archive=$2
if pinned=$(grep '@' "$list"); then
	echo "save-images.sh: docker neither saves nor pushes images by their digest. Name these by a tag, or copy them to a mirror with skopeo copy --all:" >&2
	echo "$pinned" >&2
	exit 1
fi
count=$(grep -c . "$list") || { echo "save-images.sh: no image in $list" >&2; exit 1; }
set --
while read -r image || [ -n "$image" ]; do
	[ -n "$image" ] || continue
	set -- "$@" "$image"
	echo "[$#/$count] $image"
	"${DOCKER:-docker}" pull --quiet "$image" </dev/null >/dev/null
done <"$list"
trap 'rm -f "$archive.part"' EXIT
"${DOCKER:-docker}" save -o "$archive.part" "$@"
mv "$archive.part" "$archive"
echo "$archive has $count images"
