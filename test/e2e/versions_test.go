package e2e

import (
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// A version that the policy does not let follow the one before is refused, and reaches no node when a tool sets it
// all the same. The fleet goes the path that the refusal names.
//
// Contract 97.
func TestAFleetGoesThePathThatItsPolicyAllows(t *testing.T) {
	s, ctx := enter(t)
	s.policy(ctx, t, "path", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(3)), Versions: &topsv1.VersionPolicy{
		Steps: []topsv1.VersionStep{{Component: "gfd", From: "1.4.x", To: "1.5.x"}, {Component: "gfd", From: "1.5.x", To: "1.6.x"}}}})
	d := &drivers{stage: s, t: t, name: s.name("path")}
	gr := &topsv1.GcuResource{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind},
		ObjectMeta: metav1.ObjectMeta{Name: d.name, Annotations: s.underPolicy("path")}, Spec: topsv1.GcuResourceSpec{GFD: s.component(d.name, "1.4.2")}}
	s.create(ctx, t, gr.DeepCopy())
	d.reaches(ctx, "deployed", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes })

	gr.Spec.GFD.Version = "1.6.1"
	m := &mission{d, filepath.Join(t.TempDir(), "gr.yaml")}
	m.write(m.file, gr)
	const path = "gfd 1.4.2 > 1.6.1: no step allows it (versions.steps); the allowed path is 1.4.2 > a version in 1.5.x such as 1.5.0 > 1.6.1"
	s.gcu(ctx, t, s.Kubeconfig, 4, []string{path}, "upgrade", "-f", m.file)

	before := s.podsOf(ctx, t, d.name)
	d.upgradeOf(ctx, "gfd", "1.6.1")
	d.reaches(ctx, "held on every node", func(r *topsv1.DaemonRolloutStatus) bool { return r.HeldNodes == stageNodes })
	s.gcu(ctx, t, s.Kubeconfig, 0, []string{"VersionNotAllowed", "the allowed path is 1.4.2"}, "nodes", d.name, "--output", "json")
	if left := survivors(before, s.podsOf(ctx, t, d.name)); left != stageNodes {
		t.Errorf("%d of %d pods are left", left, stageNodes)
	}

	s.kubectl(ctx, t, "patch", "gr", d.name, "--type=merge", "-p", `{"spec":{"gfd":{"version":"1.5.0"}}}`)
	upgraded := func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes }
	d.reaches(ctx, "at 1.5.0", upgraded)
	d.upgradeOf(ctx, "gfd", "1.6.1")
	d.reaches(ctx, "at 1.6.1", upgraded)
	s.gcu(ctx, t, s.Kubeconfig, 0, []string{"1.6.1"}, "versions", d.name)
}
