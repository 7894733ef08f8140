package daemonupdater

import (
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const oldHash, newHash = "old", "new"

func ago(d time.Duration) metav1.Time { return metav1.NewTime(epoch.Add(-d)) }

func controlledBy(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: &yes, BlockOwnerDeletion: &yes}}
}

// daemonSet is a DaemonSet under AdvancedRollingUpdate, one node at a time,
// whose template the DaemonSet controller has observed.
func daemonSet(name string) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: name, UID: types.UID("uid-" + name), Generation: 2,
		Annotations: map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "1"},
	}}
	ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	ds.Spec.Template.Labels = map[string]string{"app": name, "tier": "node"}
	ds.Status.ObservedGeneration = 2
	return ds
}

// hashed returns the labels the DaemonSet controller gives to pods and
// ControllerRevisions: those of the template, and the hash of the revision.
func hashed(ds *appsv1.DaemonSet, hash string) map[string]string {
	labels := maps.Clone(ds.Spec.Template.Labels)
	labels[appsv1.ControllerRevisionHashLabelKey] = hash
	return labels
}

// ofGcuResource makes a DaemonSet one of the gr "fleet".
func ofGcuResource(ds *appsv1.DaemonSet) *appsv1.DaemonSet {
	ds.OwnerReferences = controlledBy("topsops.enflame.com/v1", "GcuResource", "fleet", "uid-fleet")
	ds.Labels = map[string]string{topsv1.LabelGcuResource: "fleet"}
	return ds
}

func annotate(ds *appsv1.DaemonSet, key, value string) *appsv1.DaemonSet {
	ds.Annotations[key] = value
	return ds
}

// revisionsOf returns ControllerRevisions of a DaemonSet, the oldest first.
func revisionsOf(ds *appsv1.DaemonSet, hashes ...string) []*appsv1.ControllerRevision {
	var list []*appsv1.ControllerRevision
	for i, hash := range hashes {
		list = append(list, &appsv1.ControllerRevision{Revision: int64(i + 1), ObjectMeta: metav1.ObjectMeta{
			Namespace: ds.Namespace, Name: ds.Name + "-" + hash, UID: types.UID(ds.Name + hash),
			Labels:          hashed(ds, hash),
			OwnerReferences: controlledBy("apps/v1", "DaemonSet", ds.Name, ds.UID),
		}})
	}
	return list
}

// podOn is an available pod of a DaemonSet, bound to a node.
func podOn(ds *appsv1.DaemonSet, node, hash string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: ds.Namespace, Name: ds.Name + "-" + node, UID: types.UID("uid-" + ds.Name + "-" + node), CreationTimestamp: ago(time.Hour),
		Labels:          hashed(ds, hash),
		OwnerReferences: controlledBy("apps/v1", "DaemonSet", ds.Name, ds.UID),
	}}
	pod.Spec.NodeName = node
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)}}
	return pod
}

func deleting(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp = &metav1.Time{Time: epoch}
	return pod
}

// node is Ready since an hour, in zone z.
func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{corev1.LabelTopologyZone: "z"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)}}},
	}
}

func offline(n *corev1.Node) *corev1.Node {
	n.Status.Conditions[0].Status = corev1.ConditionUnknown
	n.Status.Conditions[0].LastTransitionTime = ago(time.Minute)
	return n
}

// memberWith is a member at newHash, with the pods the cache has of it.
func memberWith(ds *appsv1.DaemonSet, pods ...*corev1.Pod) memberAndPods {
	return memberAndPods{member{daemonSet: ds, revisions: revisionsOf(ds, oldHash, newHash)}, pods}
}

type memberAndPods struct {
	member
	pods []*corev1.Pod
}

// seen is what an observation is made of.
type seen struct {
	members  []memberAndPods
	nodes    []*corev1.Node
	upgrades []*topsv1.NodeUpgrade
	policy   *topsv1.UpgradePolicy
}

// observed is an observation of members on nodes, with an empty DaemonRollout.
func observed(members []memberAndPods, nodes ...*corev1.Node) *observation {
	return seen{members: members, nodes: nodes}.observe()
}

func (s seen) observe() *observation {
	o := &observation{group: groupOf(s.members[0].daemonSet), rollout: &topsv1.DaemonRollout{}, policy: s.policy}
	var pods [][]*corev1.Pod
	for _, m := range s.members {
		o.members = append(o.members, m.member)
		pods = append(pods, m.pods)
	}
	in := inputFrom(o)
	o.view = newView(o, &in, values(s.nodes), pods, values(s.upgrades))
	return o
}

// testBook is the logic book of the tests.
var testBook = upgradeplan.DefaultBook()

func inputFrom(o *observation) rollout.Input {
	return inputOf(o, &testBook, rollout.DefaultDeadlines, epoch)
}

func values[T any](pointers []*T) []T {
	var list []T
	for _, p := range pointers {
		list = append(list, *p)
	}
	return list
}

// request is one for the pod of a DaemonSet on a node.
func request(id string, ds *appsv1.DaemonSet, pod *corev1.Pod) topsv1.UpgradeRequest {
	return topsv1.UpgradeRequest{
		ID: id, RequestTime: ago(time.Minute),
		DaemonSet: topsv1.NamespacedRef{Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID},
		Pod:       topsv1.NamespacedRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
}

func nodeUpgrade(node string, requests ...topsv1.UpgradeRequest) *topsv1.NodeUpgrade {
	return &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: topsv1.NodeUpgradeStatus{Requests: requests}}
}

func taskIn(id string, state topsv1.TaskState) topsv1.UpgradeTask {
	return topsv1.UpgradeTask{RequestID: id, State: state}
}

// planned is a node of a plan's input: Ready, with one available pod.
func planned(name, revision string) rollout.Node {
	return rollout.Node{Name: name, UID: types.UID("uid-" + name), Ready: true, ReadySince: epoch.Add(-time.Hour),
		Pods: []rollout.Pod{{Name: "p-" + name, UID: types.UID("pod-" + name), Revision: revision, Available: true}}}
}

func plannedOffline(name, revision string) rollout.Node {
	n := planned(name, revision)
	n.Ready, n.ReadySince = false, epoch.Add(-time.Minute)
	return n
}

func plannedBroken(name, revision string) rollout.Node {
	n := planned(name, revision)
	n.Pods[0].Available = false
	return n
}

// manyNodes makes n nodes n00, n01, … of a plan's input.
func manyNodes(n int, make func(name, revision string) rollout.Node, revision string) []rollout.Node {
	var nodes []rollout.Node
	for i := range n {
		nodes = append(nodes, make("n"+strconv.Itoa(i/10)+strconv.Itoa(i%10), revision))
	}
	return nodes
}
