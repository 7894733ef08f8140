package daemonupdater

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// deletedPods remembers which pods this process deleted until the cache shows
// it, so that no pod is deleted twice. Nothing depends on it: a second deletion
// would only be a wasted request.
type deletedPods struct {
	mu   sync.Mutex
	uids map[types.UID]deletedPod
}

// deletedPod is where a pod was.
type deletedPod struct {
	group Group
	node  string
}

func (d *deletedPods) has(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.uids[uid]
	return ok
}

func (d *deletedPods) add(uid types.UID, g Group, node string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uids == nil {
		d.uids = map[types.UID]deletedPod{}
	}
	d.uids[uid] = deletedPod{g, node}
}

// prune forgets the pods of a group that the cache shows as terminating or not
// at all. v is nil when the group is gone.
func (d *deletedPods) prune(g Group, v *view) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, pod := range d.uids {
		if pod.group == g && (v == nil || !v.alive(pod.node, uid)) {
			delete(d.uids, uid)
		}
	}
}
