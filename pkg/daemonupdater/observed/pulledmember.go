package observed

// prepulls are what is pulled for the members of a group, by their index, read once for all nodes.
type prepulls struct {
	read    bool
	members []pulledMember
}

// pulledMember is what is pulled for a member; target is "" for nothing.
type pulledMember struct {
	target string
	images []string
	// before are the images of earlier revisions, by hash, as far as they were needed.
	before map[string][]string
}
