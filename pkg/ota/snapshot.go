package ota

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/journal"
)

// snapshotID is the id of the only snapshot in its journal.
const snapshotID = "node"

// snapshotKind keeps two generations: an older picture is better than none.
var snapshotKind = journal.Kind[snapshot]{
	ID:           func(snapshot) string { return snapshotID },
	IDPattern:    regexp.MustCompile(`^` + snapshotID + `$`),
	KeepPrevious: true,
	MaxBytes:     8 << 20,
}

// seen keeps what was last seen of this node, on the disk only: it is needed when the
// API server is away. It is safe for concurrent use.
type seenNode struct {
	mu      sync.Mutex
	journal *journal.Journal[snapshot]
	log     logr.Logger
	// resourceVersions of the pods of the last snapshot, which report whether it changed.
	written string
	// daemonSets of the last snapshot.
	daemonSets []owner
	// newest revision of each pod, by UID, of the last snapshot of this process; nil before.
	newest map[types.UID]string
}

func openSeen(stateDirectory string, log logr.Logger) (*seenNode, error) {
	kept, content, err := journal.Open(filepath.Join(stateDirectory, "seen"), snapshotKind, log)
	if err != nil {
		return nil, err
	}
	s := &seenNode{journal: kept, log: log}
	if len(content.Values) > 0 {
		s.daemonSets = content.Values[0].DaemonSets
	}
	return s, nil
}

// last returns the last snapshot; the error says why there is none.
func (s *seenNode) last() (*snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, err := s.journal.Get(snapshotID)
	if err != nil {
		return nil, fmt.Errorf("the pods of this node were not seen yet: %w", err)
	}
	return &last, nil
}

// known returns what is known of a DaemonSet, nil for nothing.
func (s *seenNode) known(ref *metav1.OwnerReference) *owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.daemonSets, func(o owner) bool { return o.Ref.UID == ref.UID })
	if i < 0 {
		return nil
	}
	known := s.daemonSets[i]
	return &known
}

// newestOf returns the newest revision of each pod of this node, "" when it needs none;
// nil when the pods were not looked at yet.
func (s *seenNode) newestOf() map[types.UID]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest // replaced, never changed
}

// keep makes a snapshot the last one. What cannot be written is said, and seen again.
func (s *seenNode) keep(next *snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.daemonSets = next.DaemonSets
	s.newest = map[types.UID]string{}
	for i := range next.Pods.Items {
		s.newest[next.Pods.Items[i].UID] = newest(&next.Pods.Items[i])
	}
	version := versionsOf(next)
	if version == s.written {
		return
	}
	if err := s.journal.Put(*next); err != nil {
		s.log.Error(err, "Cannot keep what was seen of this node for when the API server is away")
		return
	}
	s.written = version
}

// versionsOf names a state of the pods and DaemonSets of a snapshot.
func versionsOf(s *snapshot) string {
	version := ""
	for i := range s.Pods.Items {
		version += string(s.Pods.Items[i].UID) + "/" + s.Pods.Items[i].ResourceVersion + " "
	}
	return version + fmt.Sprint(s.DaemonSets)
}

// look reads the pods of this node, and the DaemonSets that own them: those of which
// something may have changed, or all when everything has to be fresh.
func (in *Inbox) look(ctx context.Context, fresh bool) (*snapshot, error) {
	pods, err := in.cluster.Pods(ctx, in.nodeName)
	if err != nil {
		return nil, fmt.Errorf("listing pods of node %s: %w", in.nodeName, err)
	}
	s := &snapshot{Time: seconds(in.clock.Now()), Pods: *pods}
	for i := range s.Pods.Items {
		pod := &s.Pods.Items[i]
		pod.ManagedFields = nil
		ref := daemonset.Owner(pod)
		if ref == nil || slices.ContainsFunc(s.DaemonSets, func(o owner) bool { return o.Ref.UID == ref.UID }) {
			continue
		}
		o, err := in.lookAt(ctx, pod, ref, fresh)
		if err != nil {
			return nil, err
		}
		if o != nil {
			s.DaemonSets = append(s.DaemonSets, *o)
		}
	}
	in.seenNode.keep(s)
	return s, nil
}

// lookAt reads the DaemonSet of a pod, and the template of the newest revision that the
// pod names; nil when the DaemonSet is gone.
func (in *Inbox) lookAt(ctx context.Context, pod *corev1.Pod, ref *metav1.OwnerReference, fresh bool) (*owner, error) {
	hash := newest(pod)
	known := in.seenNode.known(ref)
	if !fresh && known.shows(hash) {
		return known, nil
	}
	ds, err := in.cluster.DaemonSet(ctx, pod.Namespace, ref.Name)
	switch {
	case apierrors.IsNotFound(err), err == nil && ds.UID != ref.UID:
		return nil, nil
	case apierrors.IsForbidden(err): // an older ClusterRole: the pods are shown all the same
		in.log.V(1).Info("Not looking at a DaemonSet", "DaemonSet", pod.Namespace+"/"+ref.Name, "cause", err.Error())
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("getting DaemonSet %s/%s: %w", pod.Namespace, ref.Name, err)
	}
	o := ownerOf(ds)
	if known.shows(hash) {
		o.Target = known.Target // a revision does not change
	} else if hash != "" {
		if o.Target, err = in.target(ctx, o.Ref, hash); err != nil {
			return nil, err
		}
	}
	return &o, nil
}

// shows reports whether a DaemonSet was seen with a newest revision, "" for none.
func (o *owner) shows(hash string) bool {
	switch {
	case o == nil:
		return false
	case o.Target == nil:
		return hash == ""
	}
	return o.Target.Revision == hash
}

// target reads the template of a revision; nil when there is no such ControllerRevision,
// whose name is that of its DaemonSet and its hash.
func (in *Inbox) target(ctx context.Context, ds topsv1.NamespacedRef, hash string) (*template, error) {
	revision, err := in.cluster.ControllerRevision(ctx, ds.Namespace, ds.Name+"-"+hash)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("getting ControllerRevision %s/%s-%s: %w", ds.Namespace, ds.Name, hash, err)
	}
	if ref := metav1.GetControllerOfNoCopy(revision); ref == nil || ref.UID != ds.UID {
		return nil, nil
	}
	return templateOf(revision, hash)
}

// unusableError says that the NodeUpgrade of this node cannot be used, although the API
// server can.
type unusableError struct{ message string }

func (e *unusableError) Error() string { return e.message }

// away reports whether an error says that the API server cannot be used now, and not that
// it refuses.
func away(err error) bool {
	if _, unusable := errors.AsType[*unusableError](err); unusable {
		return false
	}
	var answered apierrors.APIStatus
	if errors.As(err, &answered) {
		code := answered.Status().Code
		return code >= 500 || code == 429 || code == 0
	}
	return true
}
