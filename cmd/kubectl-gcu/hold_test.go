package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestHoldAndRelease(t *testing.T) {
	s := newSite(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "holding"}}
	s.create(node)
	u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "holding"}}
	t.Cleanup(func() { _ = s.Delete(t.Context(), u) })
	held := func() string {
		t.Helper()
		s.read(u)
		return u.Annotations[topsv1.AnnotationHold]
	}
	s.says(s.gcu("release", "holding"), exitOK, "no administrator holds node holding")
	s.says(s.gcu("hold", "holding", "-m", "a run until Friday"), exitOK, "node holding is held", "kubectl gcu release holding")
	first := held()
	if !strings.HasSuffix(first, "Z a run until Friday") || len(u.OwnerReferences) != 1 || u.OwnerReferences[0].UID != node.UID || u.OwnerReferences[0].Kind != "Node" {
		t.Errorf("it is %+v", u)
	}
	onlyOursWrote(t, u, topsv1.AnnotationHold)
	before := u.ResourceVersion
	s.says(s.gcu("hold", "holding"), exitOK, "is already held: held by admin since", "a run until Friday")
	if held() != first || u.ResourceVersion != before {
		t.Error("holding what is held was a write")
	}
	s.says(s.gcu("hold", "holding", "-m", "until Monday"), exitOK, "its message was changed")
	if got := held(); got != strings.Replace(first, "a run until Friday", "until Monday", 1) {
		t.Errorf("it is held as %q, which was %q", got, first)
	}
	s.says(s.gcu("__complete", "release", ""), exitOK, "holding")
	s.says(s.gcu("__complete", "hold", ""), exitOK, "holding")
	u.Status.Agent = &topsv1.AgentStatus{Hold: &topsv1.NodeHold{Since: metav1.Now(), Message: "surgery"}}
	if err := s.Status().Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("release", "holding"), exitOK, "node holding is released", "still held: held locally on the node", "surgery")
	if held() != "" || u.Status.Agent.Hold == nil {
		t.Errorf("it is %+v", u)
	}
	s.says(s.gcu("hold", "absent"), exitRefused, "there is no node absent")
	s.says(s.gcu("hold", "holding", "-m", "two\nlines"), exitUsage, "one line")
	s.says(s.gcu("hold", "holding", "-m", strings.Repeat("x", 257)), exitUsage, "at most 256")
}
