package nodes

import (
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/test/harness"
)

// kubeletConfig is that of a node.
const kubeletConfig = "/etc/kubernetes/kubelet.yaml"

// outlivingSets are the DaemonSets whose pods a kubelet that is short of disk leaves alone.
var outlivingSets = []string{agentSet, driverSet, toolkitSet, pluginSet, exporterSet, "enflame-gcu-feature-discovery"}

// diskPressure: the kubelet of a node finds its disk too full, evicts pods and removes
// images. What the node needs to be a GCU node outlives that, and when there is room the
// node is upgraded like any other.
func (s *stage) diskPressure() {
	s.deploy("AdvancedRollingUpdate", "brisk")
	s.train()
	node := s.victims()[0]
	before := s.outliving(node)
	s.on(node, "cp", kubeletConfig, "/run/kubelet.yaml")
	// More than any disk has. As it is, the pressure would last five minutes longer.
	s.on(node, "sh", "-ec", `sed -i 's/nodefs.available: 1%/nodefs.available: 99%/' `+kubeletConfig+
		`; echo 'evictionPressureTransitionPeriod: 5s' >>`+kubeletConfig+`; /etc/init.d/kubelet restart`)
	s.eventually("the kubelet of "+node+" has evicted what is not critical", func() error {
		if !s.underPressure(node) {
			return fmt.Errorf("it is not short of disk")
		}
		for _, pod := range s.pods("default", "app", "training") {
			// It is to run always: only a kubelet that evicts it ends it for good.
			ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			if pod.Spec.NodeName == node && ended {
				return nil
			}
		}
		return fmt.Errorf("its training pod was not evicted")
	})
	s.never("a pod that the node needs goes", func() bool { return !slices.Equal(before, s.outliving(node)) })
	s.on(node, "sh", "-ec", "cp /run/kubelet.yaml "+kubeletConfig+"; /etc/init.d/kubelet restart")
	// There is no registry to pull what the kubelet has removed.
	check(s.t, s.LoadImages(s.ctx, os.Stderr, s.Project.Path("bin", "images", "operator.tar"), s.Project.Path("bin", "images", "standins.tar")))
	s.eventually("there is room on "+node, func() error {
		if s.underPressure(node) {
			return fmt.Errorf("it is short of disk")
		}
		return nil
	})
	departures, err := harness.WatchDepartures(s.ctx, s.Cluster)
	check(s.t, err)
	s.eventually("all cards are used again", s.trains)
	if now := s.outliving(node); !slices.Equal(before, now) {
		s.t.Errorf("the node had the pods %v, now %v", before, now)
	}
	departures.Take()
	observer := s.observe()
	s.set("driver", "2.0.0")
	s.endsWell(observer, departures)
	s.clear()
	s.nodesAreClean()
}

// underPressure tells whether the kubelet of a node says that its disk is too full.
func (s *stage) underPressure(node string) bool {
	s.t.Helper()
	return nodeIs(s.node(node), corev1.NodeDiskPressure)
}

// outliving are the pods of a node that are critical to it, "" for one that is not there.
func (s *stage) outliving(node string) []types.UID {
	s.t.Helper()
	var uids []types.UID
	for _, set := range outlivingSets {
		var uid types.UID
		if pod := s.podOn(set, node); pod != nil && pod.Status.Phase == corev1.PodRunning {
			uid = pod.UID
		}
		uids = append(uids, uid)
	}
	return uids
}
