package ota

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/journal"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// nodeID is the id of the only value in the journal of the node's pods.
const nodeID = "node"

// concurrentReads bounds the reads of DaemonSets at a time.
const concurrentReads = 8

// nodeKind keeps two generations: older data is better than none.
var nodeKind = journal.Kind[request.Node]{
	ID:           func(request.Node) string { return nodeID },
	IDPattern:    regexp.MustCompile(`^` + nodeID + `$`),
	KeepPrevious: true,
	MaxBytes:     8 << 20,
}

// nodeReader reads this node's pods from the API server. It keeps the last result on disk,
// for use while the API server is away. It is safe for concurrent use.
type nodeReader struct {
	nodeName string
	cluster  Cluster
	clock    clock.PassiveClock
	log      logr.Logger

	mu   sync.Mutex
	disk *journal.Journal[request.Node]
	// written identifies the versions of what was written last.
	written string
	// daemonSets is the last result.
	daemonSets []request.DaemonSet
	// newest maps the UIDs of the pods that this process read last to their newest
	// revisions; nil before the first read.
	newest map[types.UID]string
}

func openNode(o Options) (*nodeReader, error) {
	disk, content, err := journal.Open(filepath.Join(o.StateDirectory, "seen"), nodeKind, o.Log)
	if err != nil {
		return nil, err
	}
	n := &nodeReader{nodeName: o.NodeName, cluster: o.Cluster, clock: o.Clock, log: o.Log, disk: disk}
	if len(content.Values) > 0 {
		n.daemonSets = content.Values[0].DaemonSets
	}
	return n, nil
}

// last returns the last result on disk, or an error if there is none.
func (n *nodeReader) last() (*request.Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, err := n.disk.Get(nodeID)
	if err != nil {
		return nil, fmt.Errorf("the pods of this node were not seen yet: %w", err)
	}
	last.Name = n.nodeName
	return &last, nil
}

// known returns what is known of a DaemonSet, or nil.
func (n *nodeReader) known(ref *metav1.OwnerReference) *request.DaemonSet {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.daemonSets, func(ds request.DaemonSet) bool { return ds.Ref.UID == ref.UID })
	if i < 0 {
		return nil
	}
	known := n.daemonSets[i]
	return &known
}

// newestOf returns the newest revision of each pod of this node, "" if its pod names none;
// nil if this process has not read the pods yet.
func (n *nodeReader) newestOf() map[types.UID]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.newest // replaced, never changed
}

// keep stores a result. A write error is only logged: the next read repeats it.
func (n *nodeReader) keep(next *request.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.daemonSets = next.DaemonSets
	n.newest = map[types.UID]string{}
	for i := range next.Pods.Items {
		n.newest[next.Pods.Items[i].UID] = request.Newest(&next.Pods.Items[i])
	}
	version := versionsOf(next)
	if version == n.written {
		return
	}
	if err := n.disk.Put(*next); err != nil {
		n.log.Error(err, "Cannot store the state of this node for use while the API server is unreachable")
		return
	}
	n.written = version
}

// versionsOf returns a string that identifies this state of a node's pods and DaemonSets.
func versionsOf(n *request.Node) string {
	var version strings.Builder
	for i := range n.Pods.Items {
		fmt.Fprintf(&version, "%s/%s ", n.Pods.Items[i].UID, n.Pods.Items[i].ResourceVersion)
	}
	for _, ds := range n.DaemonSets {
		var target request.Template
		if ds.Target != nil {
			target = *ds.Target
		}
		ds.Target = nil
		fmt.Fprintf(&version, "%+v %+v ", ds, target)
	}
	return version.String()
}

// look reads the pods of this node, and the DaemonSets that own them: all if fresh, else
// those that may have changed.
func (n *nodeReader) look(ctx context.Context, fresh bool) (*request.Node, error) {
	pods, err := n.cluster.Pods(ctx, n.nodeName)
	if err != nil {
		return nil, fmt.Errorf("listing pods of node %s: %w", n.nodeName, err)
	}
	now := &request.Node{Name: n.nodeName, Time: request.Seconds(n.clock.Now()), Pods: *pods}
	var owned []*corev1.Pod // one for each DaemonSet
	seen := map[types.UID]bool{}
	for i := range now.Pods.Items {
		pod := &now.Pods.Items[i]
		pod.ManagedFields = nil
		if ref := daemonset.Owner(pod); ref != nil && !seen[ref.UID] {
			seen[ref.UID] = true
			owned = append(owned, pod)
		}
	}
	if now.DaemonSets, err = n.readDaemonSets(ctx, owned, fresh); err != nil {
		n.learn(now.DaemonSets)
		return nil, err
	}
	n.keep(now)
	return now, nil
}

// readDaemonSets returns the DaemonSets of pods, with an error those that could be read: on a slow link one call after
// another takes too long.
func (n *nodeReader) readDaemonSets(ctx context.Context, owned []*corev1.Pod, fresh bool) (list []request.DaemonSet, err error) {
	read := make([]*request.DaemonSet, len(owned))
	var reads errgroup.Group
	reads.SetLimit(concurrentReads)
	for i, pod := range owned {
		reads.Go(func() (err error) {
			read[i], err = n.daemonSet(ctx, pod, daemonset.Owner(pod), fresh)
			return err
		})
	}
	err = reads.Wait()
	for _, ds := range read {
		if ds != nil {
			list = append(list, *ds)
		}
	}
	return list, err
}

// learn adds DaemonSets to the last result, so that the next read need not repeat them.
func (n *nodeReader) learn(read []request.DaemonSet) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := slices.DeleteFunc(slices.Clone(n.daemonSets), func(old request.DaemonSet) bool {
		return slices.ContainsFunc(read, func(ds request.DaemonSet) bool { return ds.Ref.UID == old.Ref.UID })
	})
	n.daemonSets = slices.Concat(known, read)
}

// daemonSet returns the DaemonSet of a pod, with the template of the newest revision that
// the pod names. It returns nil if the DaemonSet is gone or may not be read.
func (n *nodeReader) daemonSet(ctx context.Context, pod *corev1.Pod, ref *metav1.OwnerReference, fresh bool) (*request.DaemonSet, error) {
	hash := request.Newest(pod)
	known := n.known(ref)
	if !fresh && known.Shows(hash) {
		return known, nil
	}
	read, err := n.cluster.DaemonSet(ctx, pod.Namespace, ref.Name)
	switch {
	case apierrors.IsNotFound(err), err == nil && read.UID != ref.UID:
		return nil, nil
	case apierrors.IsForbidden(err): // an older ClusterRole: still return the pods
		n.log.V(1).Info("Skipping a DaemonSet", "DaemonSet", pod.Namespace+"/"+ref.Name, "cause", err.Error())
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("getting DaemonSet %s/%s: %w", pod.Namespace, ref.Name, err)
	}
	ds := request.DaemonSetOf(read)
	if known.Shows(hash) {
		ds.Target = known.Target // revisions are immutable
	} else if hash != "" {
		if ds.Target, err = n.template(ctx, ds.Ref, hash); err != nil {
			return nil, err
		}
	}
	return &ds, nil
}

// template reads the template of a revision, or returns nil if the DaemonSet has no
// ControllerRevision of this hash that can be read.
func (n *nodeReader) template(ctx context.Context, ds topsv1.NamespacedRef, hash string) (*request.Template, error) {
	revision, err := n.cluster.ControllerRevision(ctx, ds.Namespace, ds.Name+"-"+hash)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("getting ControllerRevision %s/%s-%s: %w", ds.Namespace, ds.Name, hash, err)
	}
	if ref := metav1.GetControllerOfNoCopy(revision); ref == nil || ref.UID != ds.UID {
		return nil, nil
	}
	target, err := request.ReadTemplate(revision, hash)
	if err != nil { // whose pods run on the node may write such a revision in a namespace of their own
		n.log.Info("Skipping a ControllerRevision", "cause", err.Error())
		return nil, nil
	}
	return target, nil
}
