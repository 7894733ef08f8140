package drain

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// A DaemonSet of the name with another UID is another one: kubectl's filters, which know names, would leave the pod.
func TestAPodIsOfTheDaemonSetWithItsUID(t *testing.T) {
	another := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "owner", UID: "another"}}
	live := fake.NewClientBuilder().WithObjects(another).Build()
	pods := Pods(t.Context(), live, "n1", []corev1.Pod{podIn("ns", pod("a", ofDaemonSet))}, defaultPolicy(t, nil), Lookups{})
	if want := `daemonsets.apps "owner" not found`; len(pods) != 1 || pods[0].Stays != "" || pods[0].LosesPod != want {
		t.Errorf("%+v, want that its DaemonSet is gone: %s", pods, want)
	}
}

func podIn(namespace string, pod corev1.Pod) corev1.Pod {
	pod.Namespace = namespace
	return pod
}

// The texts are those of k8s.io/kubectl and may differ in another version.
func TestFilterAnswersInTheWordsOfKubectl(t *testing.T) {
	const localStorage, noController = "Pods with local storage", "Pods that declare no controller"
	missing := apierrors.NewNotFound(appsv1.Resource("daemonsets"), "owner")
	for _, tc := range []struct {
		name   string
		pod    corev1.Pod
		lookup error
		want   eviction.Pod
	}{
		{"a pod of a ReplicaSet", pod("a"), nil, eviction.Pod{}},
		{"a pod of a DaemonSet", pod("a", ofDaemonSet, withEmptyDir), nil, eviction.Pod{Stays: "ignoring DaemonSet-managed Pods", LosesData: localStorage}},
		{"a pod of a DaemonSet that is gone", pod("a", ofDaemonSet), missing, eviction.Pod{LosesPod: `daemonsets.apps "owner" not found`}},
		{"a pod of a DaemonSet that could not be looked up", pod("a", ofDaemonSet), errors.New("no response"), eviction.Pod{Unknown: "no response"}},
		{"a static pod", pod("a", static, unmanaged, withEmptyDir), nil, eviction.Pod{Stays: "ignoring static Pods"}},
		{"a pod with an emptyDir", pod("a", withEmptyDir), nil, eviction.Pod{LosesData: localStorage}},
		{"a pod without a controller", pod("a", unmanaged), nil, eviction.Pod{LosesPod: noController}},
		{"a pod with both", pod("a", unmanaged, withEmptyDir), nil, eviction.Pod{LosesData: localStorage, LosesPod: noController}},
		{"a finished pod with both", pod("a", unmanaged, withEmptyDir, inPhase(corev1.PodSucceeded)), nil, eviction.Pod{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.want.Pod = &tc.pod
			got := eviction.Pod{Pod: &tc.pod}
			filter(&got, lookup{err: tc.lookup})
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreUnexported(eviction.Pod{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}
