package observed

import appsv1 "k8s.io/api/apps/v1"

// prepulls are what is pulled for the members of a group, by their index, read once for all nodes.
type prepulls struct {
	read bool
	// left: to the kubelet, or to the person at the node under OTA.
	left    bool
	members []pulledMember
}

// pulledMember is what is pulled for a member, the newest revision of the DaemonSet that is next; target is "" for nothing.
type pulledMember struct {
	next   *appsv1.DaemonSet
	target string
	images []string
	// before are the images of earlier revisions, by hash, as far as they were needed.
	before map[string][]string
}
