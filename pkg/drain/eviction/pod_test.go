package eviction

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

func static(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }

func claims(p *corev1.Pod) {
	withoutGCU(p)
	name := "card"
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "card", ResourceClaimName: &name}}
}

// TestWhatStaysOnANodeWhoseDriverIsReplaced decides about one pod that kubectl's filters leave.
func TestWhatStaysOnANodeWhoseDriverIsReplaced(t *testing.T) {
	set := func(uid types.UID, tolerations ...corev1.Toleration) *appsv1.DaemonSet {
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set", UID: uid}}
		ds.Spec.Template.Spec.Tolerations = tolerations
		return ds
	}
	theirs, forged := set("theirs"), fixture.OfGcuResource(set("theirs"))
	forged.Labels[topsv1.LabelComponent] = "exporter"
	const untouched = "ignored"
	tolerates := "uses the accelerator, and DaemonSet ns/set tolerates taint " + topsv1.TaintDriverUpgrade +
		", so it would come back: remove the toleration, exclude the node, or leave the pod out (drain.podSelector)"
	for _, tc := range []struct {
		name   string
		pod    corev1.Pod
		with   Pod
		runs   bool // the driver is not replaced
		opened bool // the device is not closed yet
		policy func(*topsv1.DrainPolicy)
		claims Claims
		state  State // "": evicted
		reason string
	}{
		{name: "a pod that would not come back leaves", pod: pod("a"), with: Pod{DaemonSet: theirs}},
		{name: "not before the device is closed", pod: pod("a"), with: Pod{DaemonSet: theirs}, opened: true, state: Skipped, reason: "evicted once the node has the driver-upgrade taint"},
		{name: "not for a restart of the runtime", pod: pod("a"), with: Pod{DaemonSet: theirs}, runs: true, state: Skipped, reason: untouched},
		{name: "one of the operator's own is stopped otherwise", pod: pod("a"), with: Pod{DaemonSet: set("own")}, state: Skipped, reason: untouched},
		{name: "one with the labels and the owner of the operator's own leaves", pod: pod("a"), with: Pod{DaemonSet: forged}},
		{name: "one without a card stays, whatever the scope", pod: pod("a", withoutGCU), with: Pod{DaemonSet: theirs},
			policy: func(d *topsv1.DrainPolicy) { d.Scope = topsv1.DrainAll }, state: Skipped, reason: untouched},
		{name: "one with a card leaves, whatever the scope", pod: pod("a"), with: Pod{DaemonSet: theirs},
			policy: func(d *topsv1.DrainPolicy) { d.Scope = topsv1.DrainAll }},
		{name: "one with a card from a claim leaves", pod: pod("a", claims), with: Pod{DaemonSet: theirs}, claims: Claims{Drivers: []string{"gcu.enflame.com"}}},
		{name: "one with a claim that is unknown holds", pod: pod("a", claims), with: Pod{DaemonSet: theirs}, claims: Claims{Unknown: "no response"},
			state: Failed, reason: "it is unknown whether it uses the accelerator: no response"},
		{name: "but not for a restart of the runtime", pod: pod("a", claims), with: Pod{DaemonSet: theirs}, runs: true, claims: Claims{Unknown: "no response"},
			state: Skipped, reason: untouched},
		{name: "one that tolerates everything blocks", pod: pod("a"), with: Pod{DaemonSet: set("theirs", corev1.Toleration{Operator: corev1.TolerationOpExists})}, state: Blocked, reason: tolerates},
		{name: "and is named before the device is closed", pod: pod("a"), with: Pod{DaemonSet: set("theirs", corev1.Toleration{Operator: corev1.TolerationOpExists})},
			opened: true, state: Blocked, reason: tolerates},
		{name: "one that tolerates our taint blocks", pod: pod("a"), with: Pod{DaemonSet: set("theirs", corev1.Toleration{Key: topsv1.TaintDriverUpgrade, Operator: corev1.TolerationOpExists})},
			state: Blocked, reason: tolerates},
		{name: "one that tolerates another taint leaves", pod: pod("a"), with: Pod{DaemonSet: set("theirs", corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists})}},
		{name: "one that tolerates only NoExecute leaves", pod: pod("a"),
			with: Pod{DaemonSet: set("theirs", corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})}},
		{name: "its emptyDir is protected, and named before the device is closed", pod: pod("a"), with: Pod{DaemonSet: theirs, LosesData: "Pods with local storage"},
			opened: true, state: Blocked, reason: "Pods with local storage (drain.emptyDir: Delete evicts them)"},
		{name: "one of another kind that is called DaemonSet blocks", pod: pod("a", ownedBy("apps.kruise.io/v1alpha1", "DaemonSet")), state: Blocked,
			reason: "uses the accelerator, and apps.kruise.io/v1alpha1 DaemonSet owner would bring it back: delete it or keep it off the node, exclude the node, or leave the pod out (drain.podSelector)"},
		{name: "without a card it stays", pod: pod("a", withoutGCU, ownedBy("apps.kruise.io/v1alpha1", "DaemonSet")),
			policy: func(d *topsv1.DrainPolicy) { d.Scope = topsv1.DrainAll }, state: Skipped, reason: untouched},
		{name: "a static pod blocks", pod: pod("a", static), state: Blocked,
			reason: "static, and uses the accelerator: remove its manifest from the node, exclude the node, or leave the pod out (drain.podSelector)"},
		{name: "a static pod without a card stays", pod: pod("a", static, withoutGCU), policy: func(d *topsv1.DrainPolicy) { d.Scope = topsv1.DrainAll },
			state: Skipped, reason: untouched},
		{name: "a static pod is left for a restart of the runtime", pod: pod("a", static), runs: true, state: Skipped, reason: untouched},
		{name: "the policy may leave a pod out", pod: pod("a", static, labeled("keep", "yes")), state: Skipped, reason: "podSelector of the policy leaves it",
			policy: func(d *topsv1.DrainPolicy) {
				d.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			policy := policyOf(t, nil)
			if tc.policy != nil {
				policy = policyOf(t, drainPolicy(tc.policy))
			}
			if !tc.runs {
				policy = policy.WithOwn(map[types.UID]bool{"own": true}).ReplacingDriver(!tc.opened)
			}
			facts := Facts{NodeReady: true, Pods: Candidates("n1", []corev1.Pod{tc.pod}, map[types.UID]Claims{"uid-a": tc.claims}, policy)}
			for i := range facts.Pods {
				p := &facts.Pods[i]
				p.Stays, p.DaemonSet, p.LosesData = untouched, tc.with.DaemonSet, tc.with.LosesData
			}
			evict, r := decide(facts, policy, nil, StartAt(start), start)
			if tc.state == "" {
				if len(evict) != 1 || len(r.Pods) != 0 {
					t.Errorf("it is not evicted: %+v", r.Pods)
				}
				return
			}
			want := []Outcome{{Pod: named("ns", "a"), UID: "uid-a", State: tc.state, Reason: tc.reason}}
			if diff := cmp.Diff(want, r.Pods); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheClaimsOfPodsThatStayAreReadWhateverTheScope(t *testing.T) {
	ofSet := func(p *corev1.Pod) { claims(p); ownedBy("apps/v1", "DaemonSet")(p) }
	all := policyOf(t, drainPolicy(func(d *topsv1.DrainPolicy) { d.Scope = topsv1.DrainAll }))
	replacing := all.ReplacingDriver(false)
	for _, tc := range []struct {
		name   string
		pod    corev1.Pod
		policy Policy
		want   bool
	}{
		{"of a DaemonSet", pod("a", ofSet), replacing, true},
		{"of another kind that is called DaemonSet", pod("a", claims, ownedBy("apps.kruise.io/v1alpha1", "DaemonSet")), replacing, true},
		{"a static one", pod("a", claims, static), replacing, true},
		{"one that is evicted anyway", pod("a", claims), replacing, false},
		{"without a new driver", pod("a", ofSet), all, false},
	} {
		if got := tc.policy.NeedsClaims(&tc.pod); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
	}
}

// The processes of a static pod have the UID that its kubelet gave it.
func TestNamesByProcessLeaveOutTheOwnDaemonSets(t *testing.T) {
	own, forged := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{UID: "own"}}, fixture.OfGcuResource(&appsv1.DaemonSet{})
	forged.Labels[topsv1.LabelComponent] = "exporter"
	a, b, c := pod("a"), pod("b", static), pod("c")
	pods := []Pod{{Pod: &a, DaemonSet: forged}, {Pod: &b}, {Pod: &c, DaemonSet: own}}
	want := map[string]string{"uid-a": "ns/a", "x": "ns/b"}
	if diff := cmp.Diff(want, NamesByProcess(pods, Policy{}.WithOwn(map[types.UID]bool{"own": true}))); diff != "" {
		t.Error(diff)
	}
}
