package gcuresource

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/test/world"
)

func TestTwoGrsWithBothDevicePlugins(t *testing.T) {
	s := newStage(t, "node-1")
	ctx := context.Background()
	s.create("a-whole", topsv1.GcuResourceSpec{DevicePlugin: &topsv1.BaseFields{}})
	s.play("enflame-gcu-k8s-plugin")
	s.reaches("a-whole", "Running", "1/1")
	s.create("b-shared", topsv1.GcuResourceSpec{GcusharePlugin: &topsv1.GcusharePluginSpec{}, GcushareScheduler: &topsv1.BaseFields{}})
	const why = "GcuResource a-whole deploys devicePlugin, which would hand out the same cards: set notDeploy: true on one side"
	s.sees("b-shared", "gcusharePlugin", "failed", why)
	s.sees("b-shared", "gcushareScheduler", "failed", why)
	if s.exists("gcushare-device-plugin") {
		t.Error("contract 34: both device plugins exist")
	}
	s.must(s.Delete(ctx, s.gr("a-whole")))
	s.isGone(&appsv1.DaemonSet{}, "kube-system", "enflame-gcu-k8s-plugin")
	s.sees("b-shared", "gcusharePlugin", "failed", why) // its pods still use the cards
	s.collect("enflame-gcu-k8s-plugin")
	s.play("gcushare-device-plugin")
	s.available("kube-system", "gcushare-scheduler-extender")
	s.reaches("b-shared", "Running", "2/2")
}

func TestTwoGrsSideBySide(t *testing.T) {
	s := newStage(t, "node-1")
	ctx := context.Background()
	s.create("driving", topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}})
	s.play("enflame-gcu-driver")
	s.create("measuring", topsv1.GcuResourceSpec{Exporter: &topsv1.BaseFields{}})
	s.play("enflame-gcu-exporter")
	s.reaches("driving", "Running", "1/1")
	s.reaches("measuring", "Running", "1/1")
	s.create("second", topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}})
	t.Run("contract 9: the object of one is not taken over by another, which says whose it is", func(t *testing.T) {
		s.sees("second", "driver", "failed", "DaemonSet kube-system/enflame-gcu-driver exists and belongs to GcuResource driving: "+
			"delete it, or give the component another name or set its notDeploy: true")
		s.reaches("driving", "Running", "1/1")
	})
	t.Run("contract 9: deleting one gr takes what it deployed, and nothing else", func(t *testing.T) {
		s.must(s.Delete(ctx, s.gr("driving")))
		ds := &appsv1.DaemonSet{}
		s.until("the DaemonSet of the second gr", func() string {
			s.collect("enflame-gcu-driver")
			if err := s.get(ds, "kube-system", "enflame-gcu-driver"); err != nil {
				return err.Error()
			}
			if owner := metav1.GetControllerOf(ds); owner.Name != "second" {
				return "it belongs to " + owner.Name
			}
			return ""
		})
		s.play("enflame-gcu-driver")
		s.reaches("second", "Running", "1/1")
		s.reaches("measuring", "Running", "1/1")
		if !s.exists("enflame-gcu-exporter") {
			t.Error("the exporter of another gr is gone")
		}
	})
}

func TestASpecTheAPIServerRefusesIsNotRestored(t *testing.T) {
	s := newStage(t, "node-1")
	s.create("unit", topsv1.GcuResourceSpec{GcusharePlugin: &topsv1.GcusharePluginSpec{MemoryUnit: "1"}})
	s.play("gcushare-device-plugin")
	s.reaches("unit", "Running", "1/1")
	t.Run("contract 27: memoryUnit cannot be changed while the plugin is deployed", func(*testing.T) {
		s.until("refusing another unit", func() string {
			gr := s.gr("unit")
			gr.Spec.GcusharePlugin.MemoryUnit = "0.1"
			err := s.Update(context.Background(), gr)
			if err != nil && strings.Contains(err.Error(), "memoryUnit cannot be changed while gcusharePlugin is deployed") {
				return ""
			}
			return fmt.Sprint("got ", err)
		})
	})
	s.change("unit", func(spec *topsv1.GcuResourceSpec) { spec.GcusharePlugin.NotDeploy = true })
	s.isGone(&appsv1.DaemonSet{}, "kube-system", "gcushare-device-plugin")
	s.collect("gcushare-device-plugin")
	s.change("unit", func(spec *topsv1.GcuResourceSpec) {
		spec.GcusharePlugin.NotDeploy, spec.GcusharePlugin.MemoryUnit = false, "0.1"
	})
	s.play("gcushare-device-plugin")
	s.reaches("unit", "Running", "1/1")
	oldest := revisions(t, s.Client, "unit")
	s.edit("unit", rollBackTo(oldest[len(oldest)-1].Name))
	s.until("refusing the rollback", func() string {
		c := world.Action(s.gr("unit").Status, "rollback")
		if c.Status == "failed" && c.Reason == revision.ReasonRefusedRevision && strings.Contains(c.Message, "memoryUnit cannot be changed") {
			return ""
		}
		return c.Status + " " + c.Message
	})
	if unit := s.gr("unit").Spec.GcusharePlugin.MemoryUnit; unit != "0.1" {
		t.Errorf("memoryUnit is %s", unit)
	}
	s.reaches("unit", "Running", "1/1")
}
