package observed

import appsv1 "k8s.io/api/apps/v1"

// prepulls are the images to pull for the members of a group, by index, read once for all nodes.
type prepulls struct {
	read bool
	// left to the kubelet or, under OTA, to the user at the node.
	left    bool
	members []pulledMember
}

// pulledMember is what is pulled for a member: the images of the newest revision of DaemonSet next. If nothing is
// pulled, target is "".
type pulledMember struct {
	next   *appsv1.DaemonSet
	target string
	images []string
	// before caches the images of earlier revisions, by hash.
	before map[string][]string
}
