package component

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/distribution"
)

// Cluster is what rendering needs from the cluster in addition to the gr. The zero value is a cluster without
// nodes of distributions.
type Cluster struct {
	// Distributions is true if the toolkit is for nodes of pkg/distribution too.
	Distributions bool
}

// ClusterOf returns what rendering needs from a cluster with these nodes. live is the existing DaemonSet of the
// toolkit, nil if there is none; wanted is the one that Render returned. While live has no pods, every node of a
// distribution counts, because a node with a GCU gets its label, and with it a pod, only later. After that, only
// nodes that wanted selects count. Once live is for distributions it stays so, even if their nodes leave: a change
// of the template would replace the pods on all other nodes.
func ClusterOf(live, wanted *appsv1.DaemonSet, nodes []*corev1.Node) Cluster {
	if live != nil && strings.Contains(readiness(live), distributionFiles()[0]) {
		return Cluster{Distributions: true}
	}
	runs, placing := live != nil && live.Status.DesiredNumberScheduled > 0, daemonset.Placing(wanted)
	return Cluster{Distributions: slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return distribution.Brings(n) && (!runs || placing(n).Create) })}
}

// readiness returns the script of the readiness probe of a DaemonSet, "" if it has none.
func readiness(ds *appsv1.DaemonSet) string {
	containers := ds.Spec.Template.Spec.Containers
	if len(containers) == 0 || containers[0].ReadinessProbe == nil || containers[0].ReadinessProbe.Exec == nil {
		return ""
	}
	return strings.Join(containers[0].ReadinessProbe.Exec.Command, " ")
}

// distributionFiles are the files that configure the containerd of a distribution, and patterns of
// such files, in the container of the toolkit.
func distributionFiles() []string {
	var files []string
	for _, c := range distribution.Containerds() {
		for _, file := range c.Configures() {
			files = append(files, "/host/"+file)
		}
	}
	return files
}

// serveDistributions makes the readiness probe of the toolkit read the files of distributions, unless
// its spec names the file (patchToolkit).
func serveDistributions(list objects, spec *topsv1.GcuResourceSpec) {
	if namesContainerdConfig(spec) {
		return
	}
	for _, o := range list {
		if ds, ok := o.(*appsv1.DaemonSet); ok {
			probe := ds.Spec.Template.Spec.Containers[0].ReadinessProbe.Exec.Command
			probe[len(probe)-1] += " " + strings.Join(distributionFiles(), " ")
		}
	}
}
