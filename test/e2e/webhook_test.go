package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/admission"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
	"github.com/topsops/gcu-operator/test/freeport"
	"github.com/topsops/gcu-operator/test/harness"
)

// replica starts a manager that never leads, with the webhook for grs with a label.
func (s *stage) replica(ctx context.Context, t *testing.T, label map[string]string) *harness.Process {
	t.Helper()
	now := metav1.NowMicro()
	s.create(ctx, t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: inquiry.LeaseName},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("another"), LeaseDurationSeconds: ptr.To[int32](3600), AcquireTime: &now, RenewTime: &now}})
	s.kubectl(ctx, t, "apply", "--server-side", "-f", "config/webhook/rights.yaml")
	t.Cleanup(func() { s.kubectl(context.WithoutCancel(ctx), t, "delete", "-f", "config/webhook/rights.yaml") })

	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(s.Project.Path("config", "webhook", "configuration.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var configuration admissionv1.ValidatingWebhookConfiguration
	if err := yaml.UnmarshalStrict(raw, &configuration); err != nil {
		t.Fatal(err)
	}
	webhook := &configuration.Webhooks[0]
	if webhook.ClientConfig.Service.Path == nil || *webhook.ClientConfig.Service.Path != admission.Path {
		t.Errorf("the API server calls %v", webhook.ClientConfig.Service)
	}
	webhook.ClientConfig = admissionv1.WebhookClientConfig{URL: ptr.To("https://" + address + admission.Path)}
	webhook.ObjectSelector = &metav1.LabelSelector{MatchLabels: label} // other stories have grs too
	webhook.TimeoutSeconds = ptr.To[int32](30)                         // after which the API server allows a change silently
	s.create(ctx, t, &configuration)
	return s.startManager(ctx, t, "--webhook-bind-address", address)
}

// kubectl apply of versions that the policy does not allow is refused with the path that it allows, by every replica of the manager. A
// manager that is down refuses nothing, and the operator itself may write what it has to.
//
// Contract 97.
func TestApplyIsRefusedWithThePathThatThePolicyAllows(t *testing.T) {
	s, ctx := enter(t)
	s.policy(ctx, t, "apply", topsv1.UpgradePolicySpec{Versions: &topsv1.VersionPolicy{
		Steps: []topsv1.VersionStep{{Component: "gfd", From: "1.4.x", To: "1.5.x"}, {Component: "gfd", From: "1.5.x", To: "1.6.x"}}}})
	d := &drivers{stage: s, t: t, name: s.name("apply")}
	label := map[string]string{"example.com/story": d.name}
	gr := &topsv1.GcuResource{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind},
		ObjectMeta: metav1.ObjectMeta{Name: d.name, Annotations: s.underPolicy("apply"), Labels: label}, Spec: topsv1.GcuResourceSpec{GFD: s.component(d.name, "1.4.2")}}
	m := &mission{d, filepath.Join(t.TempDir(), "gr.yaml")}
	apply := func(version string, args ...string) (string, error) {
		gr.Spec.GFD.Version = version
		m.write(m.file, gr)
		return s.Kubectl(ctx, append([]string{"apply", "-f", m.file}, args...)...)
	}
	s.create(ctx, t, gr.DeepCopy())
	manager := s.replica(ctx, t, label)
	d.reaches(ctx, "deployed", func(r *topsv1.DaemonRolloutStatus) bool { return complete(r) && r.Updated == stageNodes })

	operator, err := s.ServiceAccountKubeconfig(ctx, harness.ManagerAccount, "")
	if err != nil {
		t.Fatal(err)
	}
	const path = "gfd 1.4.2 > 1.6.1: no step allows it (versions.steps); the allowed path is 1.4.2 > a version in 1.5.x such as 1.5.0 > 1.6.1"
	denial := fmt.Sprintf("denied the request: the UpgradePolicy does not allow these versions: on %d nodes, as on %s: %s", stageNodes, s.nodes[0], path)
	s.eventually(ctx, t, func() error { // until the API server knows the webhook, with its CA
		out, err := apply("1.6.1", "--dry-run=server")
		if err == nil && (!strings.Contains(out, admission.WouldBeRefused) || !strings.Contains(out, path)) {
			err = fmt.Errorf("a dry run is not warned: %s", out)
		}
		return err
	})
	denied := func(args ...string) {
		t.Helper()
		s.eventually(ctx, t, func() error { // a manager that has no time to find out allows a change, and says so
			out, err := apply("1.6.1", args...)
			switch {
			case err == nil && strings.Contains(out, preview.NotChecked):
				s.kubectl(ctx, t, "--kubeconfig", operator, "patch", "gr", d.name, "--type=merge", "-p", `{"spec":{"gfd":{"version":"1.4.2"}}}`)
				return fmt.Errorf("the change is not checked: %s", out)
			case err == nil || !strings.Contains(err.Error(), denial):
				t.Errorf("%v %s, want %s", err, out, denial)
			}
			return nil
		})
	}
	denied()
	if said := s.gcu(ctx, t, s.Kubeconfig, 4, []string{path}, "upgrade", "-f", m.file); strings.Contains(said, "webhook") {
		t.Errorf("the plugin leaves it to the API server: %s", said)
	}

	denied("--field-manager=gcu-upgrade-manager") // who takes the name of the REST API is asked too

	s.kubectl(ctx, t, "--kubeconfig", operator, "patch", "gr", d.name, "--type=merge", "-p", `{"spec":{"gfd":{"version":"1.6.1"}}}`)
	if out := s.kubectl(ctx, t, "annotate", "gr", d.name, "example.com/changes=metadata"); strings.Contains(out, "versions") {
		t.Errorf("a change of metadata is asked about: %s", out)
	}
	if out, err := apply("1.5.0"); err != nil || strings.Contains(out, "versions") {
		t.Errorf("the path is refused: %v %s", err, out)
	}
	if err := manager.Stop(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if out, err := apply("1.6.1"); err != nil || time.Since(begun) > time.Minute {
		t.Errorf("without a manager, after %s: %v %s", time.Since(begun), err, out)
	}
}
