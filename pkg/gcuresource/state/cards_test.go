package state_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/test/world"
)

// plugin is a gr with the device plugin, all of whose pods are available on three nodes.
func plugin(t *testing.T, fields topsv1.BaseFields) *world.World {
	t.Helper()
	obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{Toolkit: &topsv1.BaseFields{}, DevicePlugin: &fields, GFD: &topsv1.BaseFields{}}), 3)
	obs.Run("toolkit", "devicePlugin", "gfd")
	return obs
}

func TestAPluginRunsWhenItsCardsAreAllocatable(t *testing.T) {
	const refused = "docker must be restarted for default runtime enflame, and this is left to the administrator (--restart-runtime=false): run on the node: systemctl restart docker"
	for _, tc := range []struct {
		name    string
		fields  topsv1.BaseFields
		given   func(*world.World)
		phase   string
		message string
	}{
		{"no agent reports", topsv1.BaseFields{}, func(*world.World) {}, "Running", ""},
		{"the node reports no cards", topsv1.BaseFields{}, func(o *world.World) {
			o.Report("node-1", func(u *topsv1.NodeUpgrade) { u.Status.Host.Devices = nil })
		}, "Running", ""},
		{"the cards are offered", topsv1.BaseFields{}, func(o *world.World) {
			o.Report("node-1")
			o.Offer("node-1", "enflame.com/gcu", "8")
		}, "Running", ""},
		{"by the name of the newer plugins", topsv1.BaseFields{}, func(o *world.World) {
			o.Report("node-1")
			o.Offer("node-1", "enflame-tech.com/gcu", "8")
		}, "Running", ""},
		{"by a name of the user", topsv1.BaseFields{Env: []corev1.EnvVar{{Name: "CUSTOM_REGISTER_RESOURCE", Value: "a.com/x, b.com/y"}}}, func(o *world.World) {
			o.Report("node-1")
			o.Offer("node-1", "b.com/y", "8")
		}, "Running", ""},
		{"the cards are offered as another resource", topsv1.BaseFields{}, func(o *world.World) {
			o.Report("node-1")
			o.Offer("node-1", "enflame.com/shared-gcu", "8")
		}, "deploying", "8 cards on 1 node, none allocatable: node-1: the pod there is available and does not offer them: see its log"},
		{"contract 60: the engines are not restarted yet", topsv1.BaseFields{}, func(o *world.World) {
			o.Report("node-1", world.Runc)
			o.Report("node-2")
			o.Offer("node-2", "enflame.com/gcu", "8")
			o.Report("node-3", world.Runc)
		}, "deploying", "16 cards on 2 nodes, none allocatable: node-1, node-3: the default runtime is runc until docker or containerd is restarted"},
		{"contract 60, 83: the restart is left to the administrator", topsv1.BaseFields{}, func(o *world.World) {
			o.Report("node-1", world.Runc, world.Operates("Running", "LeftToAdministrator", refused))
			o.Report("node-2", world.Runc)
			o.Report("node-3", world.Runc, world.Operates("Deferred", "LeftToAdministrator", refused))
		}, "deploying", "16 cards on 2 nodes, none allocatable: node-1, node-3: the default runtime is runc; " + refused +
			"; 8 cards on 1 node, none allocatable: node-2: the default runtime is runc until docker or containerd is restarted"},
		{"the restart failed", topsv1.BaseFields{}, func(o *world.World) {
			o.Report("node-1", world.Runc, world.Operates("Failed", "RestartFailed", "no systemd"))
		}, "deploying", "8 cards on 1 node, none allocatable: node-1: the default runtime is runc; the last operation of the node ended Failed (RestartFailed): no systemd"},
		{"the pod fails, and the runtime is the cause", topsv1.BaseFields{}, func(o *world.World) {
			o.Broken("devicePlugin", "node-1", "CrashLoopBackOff")
			o.Report("node-1", world.Runc)
		}, "deploying", "waiting for pods on 1 of 3 nodes: node-1 (main: CrashLoopBackOff); " +
			"8 cards on 1 node, none allocatable: node-1: the default runtime is runc until docker or containerd is restarted"},
		{"the pod fails, and the runtime is not the cause", topsv1.BaseFields{}, func(o *world.World) {
			o.Broken("devicePlugin", "node-1", "CrashLoopBackOff")
			o.Report("node-1")
		}, "deploying", "waiting for pods on 1 of 3 nodes: node-1 (main: CrashLoopBackOff)"},
		{"the pod has not started", topsv1.BaseFields{}, func(o *world.World) {
			o.Broken("devicePlugin", "node-1", "ContainerCreating")
			o.Report("node-1")
		}, "deploying", "waiting for pods on 1 of 3 nodes: node-1"},
		{"a node that is not Ready does not count", topsv1.BaseFields{}, func(o *world.World) {
			o.Report("node-1", world.Runc)
			o.Off("node-1")
		}, "Running", "1 node not Ready and not waited for: node-1"},
		{"nor one that the plugin does not belong on", topsv1.BaseFields{}, func(o *world.World) {
			o.Report("node-1")
			o.Node("node-1").Labels = nil
		}, "Running", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := plugin(t, tc.fields)
			tc.given(obs)
			got := next(obs)
			if got.ResourceStatuses[1].Message != tc.message || got.ResourceStatuses[1].Status != tc.phase || got.Phase != tc.phase {
				t.Errorf("gr %s, plugin %s: %q, want %s: %q", got.Phase, got.ResourceStatuses[1].Status, got.ResourceStatuses[1].Message, tc.phase, tc.message)
			}
			if toolkit, gfd := got.ResourceStatuses[0], got.ResourceStatuses[2]; toolkit.Status != "Running" || gfd.Status != "Running" {
				t.Errorf("toolkit %+v and gfd %+v need no allocatable card", toolkit, gfd)
			}
		})
	}
}

// An upgrade is not over, and not called a deployment, while the new plugin registers its cards.
func TestAnUpgradeLastsUntilTheCardsAreBack(t *testing.T) {
	obs := plugin(t, topsv1.BaseFields{})
	obs.Resource.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate"
	for _, node := range obs.Nodes {
		obs.Report(node.Name)
		obs.Offer(node.Name, "enflame.com/gcu", "8")
	}
	obs.NewTemplate("devicePlugin", "node-1", "node-2")
	obs.Resource.Status = next(obs)
	for _, p := range obs.Component("devicePlugin").Pods {
		p.Labels["controller-revision-hash"] = "new"
	}
	obs.Offer("node-3", "enflame.com/gcu", "0")
	obs.Resource.Status = next(obs)
	if got := obs.Resource.Status; got.Phase != "upgrading" || world.Action(got, "upgrade").Status != "upgrading" {
		t.Errorf("while node-3 offers none: %s %+v", got.Phase, got.Conditions)
	}
	obs.Offer("node-3", "enflame.com/gcu", "8")
	if got := next(obs); got.Phase != "Running" || world.Action(got, "upgrade").Status != "success" {
		t.Errorf("when it does: %s %+v", got.Phase, got.Conditions)
	}
}

func TestADriverThatAGrDeploysIsNotMissing(t *testing.T) {
	for name, of := range map[string]func(*world.World){
		"nobody": nil,
		"the gr": func(o *world.World) { o.Resource.Spec.Driver = &topsv1.BaseFields{} },
		"another gr": func(o *world.World) {
			o.Others = []topsv1.GcuResource{{}, {Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}}}}
		},
	} {
		obs := plugin(t, topsv1.BaseFields{})
		obs.Report("node-1", world.NoDriver)
		want := "True DriverMissing"
		if of != nil {
			of(obs)
			want = "False AsExpected"
		}
		if got := world.Standard(next(obs), status.ConditionDegraded); !strings.HasPrefix(got, want) {
			t.Errorf("%s deploys the driver: Degraded %s", name, got)
		}
	}
}
