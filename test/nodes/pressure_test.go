package nodes

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubeletConfig is the kubelet's configuration file on a node.
const kubeletConfig = "/etc/kubernetes/kubelet.yaml"

// criticalSets are the DaemonSets that a GCU node needs. A kubelet under disk pressure
// does not evict their pods.
var criticalSets = []string{agentSet, driverSet, toolkitSet, pluginSet, exporterSet, gfdSet}

// diskPressure: the kubelet of a node is under disk pressure, evicts pods and removes
// images. The components of the GCU node are not evicted.
func (s *stage) diskPressure() {
	node := victims[1]
	var before []types.UID
	s.eventually("every critical pod of "+node+" runs", func() error { // the previous story started some again
		before = s.criticalPods(node)
		if i := slices.Index(before, ""); i >= 0 {
			return fmt.Errorf("that of %s does not", criticalSets[i])
		}
		return nil
	})
	training := s.trainingOn(node)
	training = slices.DeleteFunc(training, func(p corev1.Pod) bool { return !ready(&p) })
	if len(training) != 1 {
		s.t.Fatalf("%d pods train on %s", len(training), node)
	}
	s.underDiskPressure(node, func() {
		s.eventually("the kubelet of "+node+" has evicted what is not critical", func() error {
			if !s.underPressure(node) {
				return fmt.Errorf("it is not short of disk")
			}
			// It restarts always, so only an eviction ends it.
			pod, err := s.pod(&training[0])
			if err == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
				err = fmt.Errorf("its training pod was not evicted")
			}
			return err
		})
		s.eventually("the kubelet has looked for more to evict", func() error {
			if !strings.Contains(s.serviceLog(node, "kubelet"), "unable to evict any pods from the node") {
				return fmt.Errorf("its log does not say that it found nothing")
			}
			return nil
		})
		if now := s.criticalPods(node); !slices.Equal(before, now) {
			s.t.Errorf("the node had the pods %v, now %v", before, now)
		}
	})
	s.eventually("all cards are used again", s.trains)
	if now := s.criticalPods(node); !slices.Equal(before, now) {
		s.t.Errorf("the node had the pods %v, now %v", before, now)
	}
}

// underDiskPressure puts the kubelet of a node under disk pressure while do runs, and waits until that is over.
func (s *stage) underDiskPressure(node string, do func()) {
	s.t.Helper()
	s.on(node, "cp", kubeletConfig, "/run/kubelet.yaml")
	// A threshold that no disk meets.
	s.on(node, "sh", "-ec", `sed -i 's/nodefs.available: 1%/nodefs.available: 99%/' `+kubeletConfig+`; /etc/init.d/kubelet restart`)
	do()
	s.on(node, "sh", "-ec", "cp /run/kubelet.yaml "+kubeletConfig+"; /etc/init.d/kubelet restart")
	check(s.t, loadImages(s.ctx, s.Cluster, node)) // there is no registry to pull the removed images from
	s.eventually("there is room on "+node, func() error {
		if s.underPressure(node) {
			return fmt.Errorf("it is short of disk")
		}
		return nil
	})
}

// underPressure reports whether a node has condition DiskPressure.
func (s *stage) underPressure(node string) bool {
	s.t.Helper()
	return nodeIs(s.node(node), corev1.NodeDiskPressure)
}

// criticalPods returns the critical pods of a node, "" for one that does not run.
func (s *stage) criticalPods(node string) []types.UID {
	s.t.Helper()
	var uids []types.UID
	for _, set := range criticalSets {
		var uid types.UID
		if pod := s.podOn(set, node); pod != nil && pod.Status.Phase == corev1.PodRunning {
			uid = pod.UID
		}
		uids = append(uids, uid)
	}
	return uids
}
