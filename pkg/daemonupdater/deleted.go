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
	uids map[types.UID]Group
}

func (d *deletedPods) has(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.uids[uid]
	return ok
}

func (d *deletedPods) add(uid types.UID, g Group) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.uids == nil {
		d.uids = map[types.UID]Group{}
	}
	d.uids[uid] = g
}

// prune forgets the pods of a group that the cache shows as terminating or not
// at all. o is nil when the group is gone.
func (d *deletedPods) prune(g Group, o *observation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.uids) == 0 {
		return
	}
	alive := map[types.UID]bool{}
	if o != nil {
		for _, m := range o.members {
			for _, pod := range m.pods {
				alive[pod.UID] = pod.DeletionTimestamp == nil
			}
		}
	}
	for uid, owner := range d.uids {
		if owner == g && !alive[uid] {
			delete(d.uids, uid)
		}
	}
}
