package drain

import (
	"context"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	kubectldrain "k8s.io/kubectl/pkg/drain"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// staticPod is why a mirror pod stays: the filters skip it without a message.
const staticPod = "ignoring static Pods"

// Lookups are the DaemonSets that were looked up, with the error if that failed.
type Lookups map[daemonSetKey]lookup

// daemonSetKey is how a pod names its DaemonSet: one of another UID is another one.
type daemonSetKey struct {
	types.NamespacedName
	uid types.UID
}

type lookup struct {
	daemonSet *appsv1.DaemonSet
	err       error
}

// Pods returns the pods of a node that a drain considers, with the verdict of kubectl's drain
// filters. It reads their ResourceClaims, and the DaemonSets that are not among the lookups.
func Pods(ctx context.Context, live client.Reader, node string, pods []corev1.Pod, p eviction.Policy, known Lookups) []eviction.Pod {
	found := eviction.Candidates(node, pods, readClaims(ctx, live, pods, p), p)
	for i := range found {
		key := daemonSetOf(found[i].Pod)
		if _, done := known[key]; !done && key.Name != "" {
			known[key] = look(ctx, live, key)
		}
		filter(&found[i], known[key])
	}
	return found
}

// daemonSetOf returns the DaemonSet that owns a pod, zero when there is none.
func daemonSetOf(pod *corev1.Pod) (key daemonSetKey) {
	if owner := daemonset.Owner(pod); owner != nil {
		key = daemonSetKey{types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}, owner.UID}
	}
	return key
}

func look(ctx context.Context, live client.Reader, key daemonSetKey) lookup {
	ds := &appsv1.DaemonSet{}
	err := live.Get(ctx, key.NamespacedName, ds)
	if err == nil && ds.UID != key.uid {
		err = apierrors.NewNotFound(appsv1.Resource("daemonsets"), key.Name)
	}
	return lookup{ds, err}
}

// filter applies kubectl's drain filters to one pod. The library keeps only the last of
// several reasons, so it is called repeatedly: first with everything allowed, then with one
// thing forbidden. of is the result of looking up the pod's DaemonSet, zero when it has none.
func filter(pod *eviction.Pod, of lookup) {
	a := verdictOf(pod.Pod, of.err, kubectldrain.Helper{Force: true, DeleteEmptyDirData: true})
	switch {
	case a.evict:
		pod.LosesData = verdictOf(pod.Pod, of.err, kubectldrain.Helper{Force: true}).refusal
		pod.LosesPod = verdictOf(pod.Pod, of.err, kubectldrain.Helper{DeleteEmptyDirData: true}).refusal
	case a.refusal != "":
		pod.Unknown = a.refusal
	case a.warning != "":
		pod.Stays, pod.DaemonSet = a.warning, of.daemonSet
		pod.LosesData = verdictOf(withoutOwner(pod.Pod), nil, kubectldrain.Helper{Force: true}).refusal
	default:
		pod.Stays = staticPod
	}
}

// withoutOwner returns a pod of no DaemonSet, whose volumes the library looks at.
func withoutOwner(pod *corev1.Pod) *corev1.Pod {
	orphan := *pod
	orphan.OwnerReferences = nil
	return &orphan
}

// verdict is the library's verdict about one pod.
type verdict struct {
	evict            bool
	refusal, warning string
}

func verdictOf(pod *corev1.Pod, lookup error, helper kubectldrain.Helper) verdict {
	helper.IgnoreAllDaemonSets = true
	helper.Client = oneNode{pod: pod, lookup: lookup}
	list, errs := helper.GetPodsForDeletion(pod.Spec.NodeName)
	if list == nil {
		return verdict{refusal: errors.Join(errs...).Error()}
	}
	of := ": " + pod.Namespace + "/" + pod.Name
	a := verdict{evict: len(list.Pods()) > 0, warning: strings.TrimSuffix(list.Warnings(), of)}
	if len(errs) > 0 {
		message := strings.TrimPrefix(strings.TrimSuffix(errs[0].Error(), of), "cannot delete ")
		a.refusal, _, _ = strings.Cut(message, " (use --") // kubectl's flags do not apply here
	}
	return a
}

// oneNode is a fake clientset for the filters, which list pods and look up DaemonSets
// themselves. It serves one pod and the DaemonSet lookup made before, once for all pods and
// past the cache; pods outside the scope stay hidden. The filters make no other call.
type oneNode struct {
	kubernetes.Interface
	pod    *corev1.Pod
	lookup error
}

// CoreV1 serves pods.
func (n oneNode) CoreV1() corev1client.CoreV1Interface { return oneNodeCore{node: n} }

// AppsV1 serves DaemonSets.
func (n oneNode) AppsV1() appsv1client.AppsV1Interface { return oneNodeApps{node: n} }

type oneNodeCore struct {
	corev1client.CoreV1Interface
	node oneNode
}

// Pods serves the pod, whatever the namespace.
func (c oneNodeCore) Pods(string) corev1client.PodInterface { return oneNodePods{node: c.node} }

type oneNodePods struct {
	corev1client.PodInterface
	node oneNode
}

// List returns the one pod.
func (p oneNodePods) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{Items: []corev1.Pod{*p.node.pod}}, nil
}

type oneNodeApps struct {
	appsv1client.AppsV1Interface
	node oneNode
}

// DaemonSets serves the pod's DaemonSet, whatever the namespace.
func (a oneNodeApps) DaemonSets(string) appsv1client.DaemonSetInterface {
	return oneNodeDaemonSets{node: a.node}
}

type oneNodeDaemonSets struct {
	appsv1client.DaemonSetInterface
	node oneNode
}

// Get returns the result of the lookup made before.
func (d oneNodeDaemonSets) Get(context.Context, string, metav1.GetOptions) (*appsv1.DaemonSet, error) {
	return &appsv1.DaemonSet{}, d.node.lookup
}
